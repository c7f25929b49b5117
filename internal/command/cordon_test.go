// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command_test

import (
	"bytes"
	"context"
	"encoding/json"
	sorting "slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"gpuslice/internal/command"
	"gpuslice/internal/cordon"
)

// cordonWith runs the command and returns its exit status and what it says to standard error.
func cordonWith(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // if the flags are right it ends at once
	status := command.GPUPlugin().Main(ctx, append([]string{"cordon"}, args...), command.Streams{Out: &out, Err: &errs})
	return status, errs.String()
}

func TestCordonFlags(t *testing.T) {
	const amount = "it is a number from 1 on, such as 2, or a percentage from 1% to 100%, such as 50%"
	for flag, want := range map[string]string{
		"--threshold=0":        "--threshold=0: " + amount,
		"--threshold=half":     "--threshold=half: " + amount,
		"--threshold=101%":     "--threshold=101%: " + amount,
		"--threshold=":         "--threshold=: " + amount,
		"--max-cordoned=0":     "--max-cordoned=0: " + amount,
		"--max-cordoned=-3":    "--max-cordoned=-3: " + amount,
		"--wait=soon":          "--wait=soon: it is a duration from 0s on, such as 90s or 5m",
		"--wait=-1s":           "--wait=-1s: it is a duration from 0s on, such as 90s or 5m",
		"--namespace=Not_One":  "--namespace=Not_One: a lowercase RFC 1123 label must",
		"--namespace=":         "--namespace=: a lowercase RFC 1123 label must",
		"--kubeconfig=/absent": "reach the API server: stat /absent",
		"--node=a":             "flag provided but not defined: -node",
	} {
		if status, said := cordonWith(t, flag); status != 1 || !strings.Contains(said, want) {
			t.Errorf("%s: status %d, %s", flag, status, said)
		}
	}
	if status, said := cordonWith(t); status != 1 || !strings.Contains(said, "--kubeconfig") {
		t.Errorf("outside of a cluster: %d, %s", status, said)
	}
}

// objects decodes every document of a file into the type of its kind; a field that is not known fails.
func objects(t *testing.T, path string) map[string]any {
	t.Helper()
	found := map[string]any{}
	for text := range strings.SplitSeq(string(read(t, path)), "\n---\n") {
		var kind metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
			t.Fatal(err)
		}
		types := map[string]any{
			"v1 ServiceAccount":                               &corev1.ServiceAccount{},
			"rbac.authorization.k8s.io/v1 ClusterRole":        &rbacv1.ClusterRole{},
			"rbac.authorization.k8s.io/v1 ClusterRoleBinding": &rbacv1.ClusterRoleBinding{},
			"rbac.authorization.k8s.io/v1 Role":               &rbacv1.Role{},
			"rbac.authorization.k8s.io/v1 RoleBinding":        &rbacv1.RoleBinding{},
			"apps/v1 Deployment":                              &appsv1.Deployment{},
		}
		object := types[kind.APIVersion+" "+kind.Kind]
		if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
			t.Fatalf("%s %s: %v", kind.Kind, kind.Name, err)
		}
		found[kind.Kind+" "+kind.Namespace+"/"+kind.Name] = object
	}
	return found
}

// The rights are exactly what the command uses, and the Deployment is one that needs no right on its node.
func TestCordonExample(t *testing.T) {
	found := objects(t, "../../examples/cordon/cordon.yaml")
	rights := []string{}
	note := func(where string, rules []rbacv1.PolicyRule) {
		for _, r := range rules {
			text, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			rights = append(rights, where+" "+string(text))
		}
	}
	bound := []string{}
	for name, object := range found {
		switch o := object.(type) {
		case *rbacv1.ClusterRole:
			note("everywhere", o.Rules)
		case *rbacv1.Role:
			note(o.Namespace, o.Rules)
		case *rbacv1.ClusterRoleBinding:
			bound = append(bound, name+" "+o.RoleRef.Kind+" "+o.RoleRef.Name+" "+o.Subjects[0].Namespace+"/"+o.Subjects[0].Name)
		case *rbacv1.RoleBinding:
			bound = append(bound, name+" "+o.RoleRef.Kind+" "+o.RoleRef.Name+" "+o.Subjects[0].Namespace+"/"+o.Subjects[0].Name)
		}
	}
	sorting.Sort(rights)
	sorting.Sort(bound)
	if diff := cmp.Diff([]string{
		`default {"verbs":["create"],"apiGroups":["events.k8s.io"],"resources":["events"]}`,
		`everywhere {"verbs":["get","list","watch","patch"],"apiGroups":[""],"resources":["nodes"]}`,
		`gpuslice {"verbs":["create"],"apiGroups":["coordination.k8s.io"],"resources":["leases"]}`,
		`gpuslice {"verbs":["get","update"],"apiGroups":["coordination.k8s.io"],"resources":["leases"],"resourceNames":["` + cordon.LeaseName + `"]}`,
	}, rights); diff != "" {
		t.Errorf("rights (-want +got):\n%s", diff)
	}
	const account = " gpuslice/gpuslice-cordon"
	if diff := cmp.Diff([]string{
		"ClusterRoleBinding /gpuslice-cordon ClusterRole gpuslice-cordon" + account,
		"RoleBinding default/gpuslice-cordon-events Role gpuslice-cordon-events" + account,
		"RoleBinding gpuslice/gpuslice-cordon Role gpuslice-cordon" + account,
	}, bound); diff != "" {
		t.Errorf("who has them (-want +got):\n%s", diff)
	}
	deployment, ok := found["Deployment gpuslice/gpuslice-cordon"].(*appsv1.Deployment)
	if !ok || found["ServiceAccount"+account] == nil {
		t.Fatalf("%v", found)
	}
	pod := deployment.Spec.Template.Spec
	c := pod.Containers[0]
	if *deployment.Spec.Replicas != 2 || pod.ServiceAccountName != "gpuslice-cordon" || pod.HostPID || pod.HostNetwork || len(pod.Volumes) > 0 {
		t.Errorf("%+v", deployment.Spec)
	}
	if s := c.SecurityContext; !*pod.SecurityContext.RunAsNonRoot || *pod.SecurityContext.RunAsUser == 0 || !*s.ReadOnlyRootFilesystem ||
		*s.AllowPrivilegeEscalation || s.Privileged != nil || !sorting.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || s.Capabilities.Add != nil {
		t.Errorf("%+v %+v", pod.SecurityContext, s)
	}
	if c.Command[0] != "gpu-plugin" || c.Args[0] != "cordon" {
		t.Errorf("%v %v", c.Command, c.Args)
	}
	// Its flags are right: what is missing here is the cluster.
	if status, said := cordonWith(t, c.Args[1:]...); status != 1 || !strings.Contains(said, "reach the API server") {
		t.Errorf("%v: %d, %s", c.Args, status, said)
	}
}
