// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"gpuslice/test/cluster/node"
	"gpuslice/test/simdriver/library"
)

func (s *Stage) createNamespace(ctx context.Context) error {
	_, err := s.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace: %w", err)
	}
	return node.Until(ctx, time.Minute, "default service account", func(ctx context.Context) error {
		_, err := s.Client.CoreV1().ServiceAccounts(Namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// Configure writes the config, as an admin edits it.
func (s *Stage) Configure(ctx context.Context, text string) error {
	api := s.Client.CoreV1().ConfigMaps(Namespace)
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: ConfigMap}, Data: map[string]string{"config.yaml": text}}
	_, err := api.Update(ctx, m, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = api.Create(ctx, m, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write config: %w", err)
	}
	return nil
}

// Annotate sets an annotation of the node; "" takes it away.
func (s *Stage) Annotate(ctx context.Context, key, value string) error {
	return s.patchMetadata(ctx, "annotations", key, value)
}

// Label sets a label of the node; "" takes it away.
func (s *Stage) Label(ctx context.Context, key, value string) error {
	return s.patchMetadata(ctx, "labels", key, value)
}

func (s *Stage) patchMetadata(ctx context.Context, field, key, value string) error {
	entry := map[string]any{key: value}
	if value == "" {
		entry[key] = nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{field: entry}})
	if err != nil {
		return fmt.Errorf("encode %s: %w", field, err)
	}
	if _, err := s.Client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("set %s of the node: %w", field, err)
	}
	return nil
}

// Allocatable is what the node says of resources that begin with "nvidia.com/", zeros left out.
func (s *Stage) Allocatable(ctx context.Context) (map[string]int64, error) {
	n, err := s.Client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	found := map[string]int64{}
	for name, q := range n.Status.Allocatable {
		if strings.HasPrefix(string(name), "nvidia.com/") && q.Value() != 0 {
			found[string(name)] = q.Value()
		}
	}
	return found, nil
}

// Published lists the names of devices in the node's ResourceSlices of our driver.
func (s *Stage) Published(ctx context.Context) ([]string, error) {
	slicesOf, err := s.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, x := range slicesOf.Items {
		if x.Spec.Driver == "gpu.nvidia.com" {
			for _, d := range x.Spec.Devices {
				names = append(names, d.Name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// ConfigHash is the node's annotation that tells which config is in force.
func (s *Stage) ConfigHash(ctx context.Context) (string, error) {
	n, err := s.Client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return n.Annotations["gpuslice.dev/config-hash"], nil
}

// Condition returns the node's GPUSharingReady.
func (s *Stage) Condition(ctx context.Context) (corev1.NodeCondition, error) {
	n, err := s.Client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
	if err != nil {
		return corev1.NodeCondition{}, err
	}
	for _, c := range n.Status.Conditions {
		if c.Type == "GPUSharingReady" {
			return c, nil
		}
	}
	return corev1.NodeCondition{}, errors.New("node has no condition GPUSharingReady")
}

// Workload describes a pod of one container.
type Workload struct {
	Name     string
	Resource string // extended resource, one of it; "" for none
	Claim    string // name of a ResourceClaim; "" for none
	Init     bool   // only an init container, which stays, asks for the resource
}

// Pod builds the object.
func (w Workload) Pod() *corev1.Pod {
	zero := int64(0)
	c := corev1.Container{Name: "main", Image: Image, ImagePullPolicy: corev1.PullNever}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: w.Name, Namespace: Namespace},
		Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &zero},
	}
	asking := c
	if w.Resource != "" {
		asking.Resources.Limits = corev1.ResourceList{corev1.ResourceName(w.Resource): resource.MustParse("1")}
	}
	if w.Claim != "" {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &w.Claim}}
		asking.Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	}
	p.Spec.Containers = []corev1.Container{asking}
	if w.Init {
		asking.Name = "init"
		p.Spec.InitContainers, p.Spec.Containers = []corev1.Container{asking}, []corev1.Container{c}
	}
	return p
}

// Run creates the pod and waits until it runs.
func (s *Stage) Run(ctx context.Context, w Workload) error {
	if _, err := s.Client.CoreV1().Pods(Namespace).Create(ctx, w.Pod(), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create pod %s: %w", w.Name, err)
	}
	return s.PodRunning(ctx, Namespace, w.Name)
}

// Init creates a pod whose init container stays, and waits until that runs.
func (s *Stage) Init(ctx context.Context, w Workload) error {
	if _, err := s.Client.CoreV1().Pods(Namespace).Create(ctx, w.Pod(), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create pod %s: %w", w.Name, err)
	}
	return node.Until(ctx, time.Minute, "init container of "+w.Name, func(ctx context.Context) error {
		p, err := s.Client.CoreV1().Pods(Namespace).Get(ctx, w.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range p.Status.InitContainerStatuses {
			if c.State.Running != nil {
				return nil
			}
		}
		return fmt.Errorf("phase %s: %s", p.Status.Phase, p.Status.Message)
	})
}

// DeviceClasses creates the classes of a folder, as an installer does.
func (s *Stage) DeviceClasses(ctx context.Context, dir string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("no device classes in %s", dir)
	}
	if err != nil {
		return err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var class resourcev1.DeviceClass
		if err := yaml.UnmarshalStrict(text, &class); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		_, err = s.Client.ResourceV1().DeviceClasses().Create(ctx, &class, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create device class %s: %w", class.Name, err)
		}
	}
	return nil
}

// Claim creates a ResourceClaim for one device of a class that a CEL expression fits.
func (s *Stage) Claim(ctx context.Context, name, class, expression string) error {
	request := resourcev1.DeviceRequest{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class}}
	if expression != "" {
		request.Exactly.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
	}
	claim := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace},
		Spec:       resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{request}}},
	}
	if _, err := s.Client.ResourceV1().ResourceClaims(Namespace).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create claim %s: %w", name, err)
	}
	return nil
}

// Sees asks the driver's library inside a container which GPUs and instances there are; it returns their UUIDs in order.
func (s *Stage) Sees(ctx context.Context, pod string) ([]string, error) {
	out, _, err := s.Exec(ctx, node.Container{Namespace: Namespace, Pod: pod, Name: "main"}, library.ListInImage)
	if err != nil {
		return nil, err
	}
	uuids := []string{}
	for line := range strings.Lines(out) {
		if _, rest, ok := strings.Cut(line, "(UUID: "); ok {
			uuid, _, _ := strings.Cut(rest, ")")
			uuids = append(uuids, uuid)
		}
	}
	return uuids, nil
}

// Nodes lists the NVIDIA device nodes in a container.
func (s *Stage) Nodes(ctx context.Context, pod string) ([]string, error) {
	out, _, err := s.Exec(ctx, node.Container{Namespace: Namespace, Pod: pod, Name: "main"},
		"/bin/sh", "-c", "for f in /dev/nvidia[0-9]* /dev/nvidia-caps/*; do [ -e $f ] && echo $f; done; true")
	if err != nil {
		return nil, err
	}
	return strings.Fields(out), nil
}

// DeletePods deletes every pod and claim of the namespace and waits until they are gone.
func (s *Stage) DeletePods(ctx context.Context) error {
	pods, err := s.Client.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	errs := []error{}
	for _, p := range pods.Items {
		errs = append(errs, s.DeletePod(ctx, Namespace, p.Name))
	}
	errs = append(errs, s.Client.ResourceV1().ResourceClaims(Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	return errors.Join(errs...)
}

// Forget removes what an agent leaves on a node on purpose, so that the next story begins on a clean one.
func (s *Stage) Forget(ctx context.Context) error {
	err := s.Client.CoreV1().ConfigMaps(Namespace).Delete(ctx, ConfigMap, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(stateDir), os.RemoveAll(driverRoot))
}
