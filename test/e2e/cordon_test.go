// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"gpuslice/internal/cordon"
	"gpuslice/test/cluster/node"
)

const cordonNamespace = "gpuslice"

// fleet is extra Nodes, of which only the objects exist; what an agent and a kubelet would write comes from the test.
type fleet struct {
	t          *testing.T
	n          *node.Node
	kubeconfig string // of the account in examples/cordon
}

// The shipped command with the rights of the example, on a real API server: it cordons beyond the threshold, leaves what others
// cordoned alone, and the second process goes on where the first was killed.
func TestCordon(t *testing.T) {
	n, err := node.Attach()
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, n: n}
	f.install(filepath.Join(os.Getenv("GPUSLICE_ROOT"), "examples/cordon/cordon.yaml"))
	for _, name := range []string{"sick", "well", "theirs", "spare"} {
		f.add("cordon-" + name)
		f.report("cordon-"+name, "True", "0/8")
	}
	f.cordonByHand("cordon-theirs", true)
	first, firstLog := f.start("127.0.0.1:9421")
	f.ready("127.0.0.1:9421", firstLog)
	second, secondLog := f.start("127.0.0.1:9422")
	f.ready("127.0.0.1:9422", secondLog)

	f.report("cordon-theirs", "False", "8/8")
	f.report("cordon-well", "False", "3/8")
	f.report("cordon-sick", "False", "4/8")
	f.until("cordoned beyond the threshold", "cordon-sick", true, true)
	f.until("left alone below it", "cordon-well", false, false)
	f.event("cordon-sick", cordon.ReasonCordoned)

	// Killed, and the GPUs recover before another process acts.
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	f.report("cordon-theirs", "True", "0/8")
	f.report("cordon-sick", "True", "0/8")
	f.until("uncordoned by the second process", "cordon-sick", false, false)
	f.event("cordon-sick", cordon.ReasonUncordoned)
	if !f.leads("127.0.0.1:9422") {
		t.Error("the second process does not say that it acts")
	}

	f.report("cordon-well", "False", "8/8")
	f.until("cordoned by the second process", "cordon-well", true, true)
	f.report("cordon-sick", "False", "8/8")
	f.event("cordon-sick", cordon.ReasonRefused) // one of four is all that may be
	f.until("not one more than allowed", "cordon-sick", false, false)
	f.cordonByHand("cordon-well", false)
	f.until("what was uncordoned by hand stays so, and makes room", "cordon-sick", true, true)
	f.until("noted", "cordon-well", false, false)
	f.event("cordon-well", cordon.ReasonOverruled)
	f.until("somebody else's stays through all of it", "cordon-theirs", true, false)

	if err := second.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := second.Wait(); err != nil {
		t.Errorf("ended by a signal: %v", err)
	}
	log, err := os.ReadFile(secondLog)
	if err != nil || strings.Contains(string(log), "orbidden") {
		t.Errorf("a right is missing: %v\n%s", err, log)
	}
}

// install creates account and rights of the example, and a kubeconfig of that account.
func (f *fleet) install(path string) {
	f.t.Helper()
	ctx, api := f.t.Context(), f.n.Client
	_, err := api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cordonNamespace}}, metav1.CreateOptions{})
	f.created(err, nil)
	text, err := os.ReadFile(path)
	if err != nil {
		f.t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		f.create(document)
	}
	tokens, err := api.CoreV1().ServiceAccounts(cordonNamespace).CreateToken(ctx, "gpuslice-cordon", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(f.n.Dir.Kubeconfig())
	if err != nil {
		f.t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.ClientCertificate, user.ClientCertificateData, user.ClientKey, user.ClientKeyData = "", nil, "", nil
		user.Token = tokens.Status.Token
	}
	f.kubeconfig = filepath.Join(f.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, f.kubeconfig); err != nil {
		f.t.Fatal(err)
	}
}

// create creates an object of the example; the processes of the Deployment are those of the test.
func (f *fleet) create(document string) {
	f.t.Helper()
	ctx, api := f.t.Context(), f.n.Client
	var kind metav1.PartialObjectMetadata
	if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
		f.t.Fatal(err)
	}
	decode := func(into any) {
		f.t.Helper()
		if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
			f.t.Fatal(err)
		}
	}
	rbac := api.RbacV1()
	switch kind.Kind {
	case "ServiceAccount":
		o := &corev1.ServiceAccount{}
		decode(o)
		_, err := api.CoreV1().ServiceAccounts(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		f.created(err, func(ctx context.Context) error {
			return api.CoreV1().ServiceAccounts(o.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{})
		})
	case "ClusterRole":
		o := &rbacv1.ClusterRole{}
		decode(o)
		_, err := rbac.ClusterRoles().Create(ctx, o, metav1.CreateOptions{})
		f.created(err, func(ctx context.Context) error {
			return rbac.ClusterRoles().Delete(ctx, o.Name, metav1.DeleteOptions{})
		})
	case "ClusterRoleBinding":
		o := &rbacv1.ClusterRoleBinding{}
		decode(o)
		_, err := rbac.ClusterRoleBindings().Create(ctx, o, metav1.CreateOptions{})
		f.created(err, func(ctx context.Context) error {
			return rbac.ClusterRoleBindings().Delete(ctx, o.Name, metav1.DeleteOptions{})
		})
	case "Role":
		o := &rbacv1.Role{}
		decode(o)
		_, err := rbac.Roles(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		f.created(err, func(ctx context.Context) error {
			return rbac.Roles(o.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{})
		})
	case "RoleBinding":
		o := &rbacv1.RoleBinding{}
		decode(o)
		_, err := rbac.RoleBindings(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		f.created(err, func(ctx context.Context) error {
			return rbac.RoleBindings(o.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{})
		})
	}
}

// created checks that an object was, and removes it at the end.
func (f *fleet) created(err error, remove func(context.Context) error) {
	f.t.Helper()
	if err != nil && !apierrors.IsAlreadyExists(err) {
		f.t.Fatal(err)
	}
	if remove != nil {
		f.t.Cleanup(func() {
			if err := remove(context.WithoutCancel(f.t.Context())); err != nil {
				f.t.Error(err)
			}
		})
	}
}

// add creates a Node and the Lease by which the controller manager takes its kubelet for alive for the next hour.
func (f *fleet) add(name string) {
	f.t.Helper()
	ctx, api := f.t.Context(), f.n.Client
	_, err := api.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	f.created(err, func(ctx context.Context) error { return api.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}) })
	f.condition(name, corev1.NodeReady, "True")
	renewed := metav1.NewMicroTime(time.Now())
	leases := api.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	_, err = leases.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, RenewTime: &renewed},
	}, metav1.CreateOptions{})
	f.created(err, func(ctx context.Context) error {
		if err := leases.Delete(ctx, name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	})
	go f.beat(name) // until the test ends
}

// beat renews the Lease of a Node as its kubelet would.
func (f *fleet) beat(name string) {
	for {
		select {
		case <-f.t.Context().Done():
			return
		case <-time.After(5 * time.Second):
		}
		patch := fmt.Sprintf(`{"spec": {"renewTime": %q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
		_, _ = f.n.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Patch(f.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}) // or else it is not ready, which the test shows
	}
}

// condition writes a condition of a Node, as its kubelet or agent would.
func (f *fleet) condition(name string, kind corev1.NodeConditionType, status string) {
	f.t.Helper()
	now := metav1.Now()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{{
		Type: kind, Status: corev1.ConditionStatus(status), Reason: "Test", LastHeartbeatTime: now, LastTransitionTime: now,
	}}}})
	if err == nil {
		_, err = f.n.Client.CoreV1().Nodes().Patch(f.t.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// report writes what an agent would.
func (f *fleet) report(name, status, count string) {
	f.t.Helper()
	f.patch(name, fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, cordon.CountAnnotation, count))
	f.condition(name, cordon.HealthCondition, status)
}

// cordonByHand does what kubectl does.
func (f *fleet) cordonByHand(name string, unschedulable bool) {
	f.t.Helper()
	f.patch(name, fmt.Sprintf(`{"spec": {"unschedulable": %v}}`, unschedulable))
}

func (f *fleet) patch(name, text string) {
	f.t.Helper()
	if _, err := f.n.Client.CoreV1().Nodes().Patch(f.t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

// start starts the shipped command.
func (f *fleet) start(address string) (*exec.Cmd, string) {
	f.t.Helper()
	path := filepath.Join(f.t.TempDir(), "log")
	log, err := os.Create(path)
	if err != nil {
		f.t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(os.Getenv("GPUSLICE_ROOT"), "bin/gpu-plugin"), "cordon",
		"--kubeconfig="+f.kubeconfig, "--namespace="+cordonNamespace, "--listen="+address, "--wait=2s", "-v=2")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
		_ = log.Close()
		if text, err := os.ReadFile(path); f.t.Failed() && err == nil {
			f.t.Logf("%s:\n%s", address, text)
		}
	})
	return cmd, path
}

func ask(ctx context.Context, url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(request)
}

func (f *fleet) ready(address, log string) {
	f.t.Helper()
	err := node.Until(f.t.Context(), soon, "ready at "+address, func(ctx context.Context) error {
		answer, err := ask(ctx, "http://"+address+"/readyz")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return errors.New(answer.Status)
		}
		return nil
	})
	if err != nil {
		f.t.Fatal(err, log)
	}
}

func (f *fleet) leads(address string) bool {
	f.t.Helper()
	answer, err := ask(f.t.Context(), "http://"+address+"/status")
	if err != nil {
		f.t.Fatal(err)
	}
	defer answer.Body.Close()
	var status cordon.Status
	if err := json.NewDecoder(answer.Body).Decode(&status); err != nil {
		f.t.Fatal(err)
	}
	return status.Leading
}

// until waits until a Node is cordoned and marked as wanted.
func (f *fleet) until(what, name string, unschedulable, marked bool) {
	f.t.Helper()
	started := time.Now()
	err := node.Until(f.t.Context(), soon, what, func(ctx context.Context) error {
		n, err := f.n.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if mark, is := n.Annotations[cordon.MarkAnnotation]; n.Spec.Unschedulable != unschedulable || is != marked {
			return fmt.Errorf("%s: unschedulable %v, mark %q, conditions %v", name, n.Spec.Unschedulable, mark, n.Status.Conditions)
		}
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Logf("%s after %v", what, time.Since(started).Round(10*time.Millisecond))
}

// event waits for an Event on a Node.
func (f *fleet) event(name, reason string) {
	f.t.Helper()
	err := node.Until(f.t.Context(), soon, reason+" on "+name, func(ctx context.Context) error {
		list, err := f.n.Client.EventsV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Regarding.Name == name {
				return nil
			}
		}
		return fmt.Errorf("%d events of that reason", len(list.Items))
	})
	if err != nil {
		f.t.Fatal(err)
	}
}
