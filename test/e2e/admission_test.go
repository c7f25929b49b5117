// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"gpuslice/test/cluster/node"
	"gpuslice/test/stage"
)

// S11: the API server refuses a pod that asks for more shares than one, with the reason, before any controller has made a
// hundred of them; what asks for one, or for something else, goes through.
func TestPerPodLimits(t *testing.T) {
	n, err := node.Attach()
	if err != nil {
		t.Fatal(err)
	}
	admit(t, n, "examples/admission/per-pod-limits.yaml")
	const shares = "nvidia.com/gpu.shared"
	always := corev1.ContainerRestartPolicyAlways
	for _, tc := range []struct {
		name, why  string
		containers []string // the quantity that each asks for; "" for nothing
		init       []string
		sidecar    bool // init containers stay
		resource   string
		refused    bool
	}{
		{"one", "what the limit is", []string{"1"}, nil, false, shares, false},
		{"two", "the case", []string{"2"}, nil, false, shares, true},
		{"thousand", "quantities are not strings", []string{"1k"}, nil, false, shares, true},
		{"apart", "a pod is the sum of its containers", []string{"1", "", "1"}, nil, false, shares, true},
		{"first", "an init container alone", []string{"1"}, []string{"1"}, false, shares, false},
		{"greedy-first", "an init container alone asks too much", []string{"1"}, []string{"2"}, false, shares, true},
		{"sidecar", "a sidecar stays beside the others", []string{"1"}, []string{"1"}, true, shares, true},
		{"sidecar-first", "an init container runs beside a sidecar", []string{""}, []string{"1", "1"}, true, shares, true},
		{"nothing", "most pods of a cluster", []string{"", ""}, []string{""}, false, shares, false},
		{"other", "what is not limited", []string{"4"}, nil, false, "nvidia.com/gpu", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := stage.Workload{Name: "limits-" + tc.name}.Pod()
			pod.Namespace = "default"
			template := pod.Spec.Containers[0]
			pod.Spec.Containers = containers("main", template, tc.resource, tc.containers)
			pod.Spec.InitContainers = containers("init", template, tc.resource, tc.init)
			if tc.sidecar {
				pod.Spec.InitContainers[0].RestartPolicy = &always
			}
			_, err := n.Client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			switch {
			case !tc.refused && err != nil:
				t.Errorf("%s: %v", tc.why, err)
			case tc.refused && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "a pod may ask for at most 1 of "+shares)):
				t.Errorf("%s: %v", tc.why, err)
			}
		})
	}
}

func containers(prefix string, template corev1.Container, name string, quantities []string) []corev1.Container {
	all := []corev1.Container{}
	for _, q := range quantities {
		c := template
		c.Name = prefix + "-" + string(rune('a'+len(all)))
		if q != "" {
			c.Resources.Limits = corev1.ResourceList{corev1.ResourceName(name): resource.MustParse(q)}
		}
		all = append(all, c)
	}
	return all
}

// admit creates the policy of a file with its binding, and waits until the API server applies it.
func admit(t *testing.T, n *node.Node, path string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(os.Getenv("GPUSLICE_ROOT"), path))
	if err != nil {
		t.Fatal(err)
	}
	first, second, _ := strings.Cut(string(text), "\n---\n")
	var policy admissionv1.ValidatingAdmissionPolicy
	var binding admissionv1.ValidatingAdmissionPolicyBinding
	if err := errors.Join(yaml.UnmarshalStrict([]byte(first), &policy), yaml.UnmarshalStrict([]byte(second), &binding)); err != nil {
		t.Fatal(err)
	}
	api := n.Client.AdmissionregistrationV1()
	_, err = api.ValidatingAdmissionPolicies().Create(t.Context(), &policy, metav1.CreateOptions{})
	_, err2 := api.ValidatingAdmissionPolicyBindings().Create(t.Context(), &binding, metav1.CreateOptions{})
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		err := errors.Join(api.ValidatingAdmissionPolicyBindings().Delete(ctx, binding.Name, metav1.DeleteOptions{}),
			api.ValidatingAdmissionPolicies().Delete(ctx, policy.Name, metav1.DeleteOptions{}))
		if err != nil {
			t.Error(err)
		}
	})
	err = node.Until(t.Context(), soon, "policy in force", func(ctx context.Context) error {
		p, err := api.ValidatingAdmissionPolicies().Get(ctx, policy.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if checked := p.Status.TypeChecking; checked != nil && len(checked.ExpressionWarnings) > 0 {
			return node.Hopeless(errors.New(checked.ExpressionWarnings[0].Warning))
		}
		pod := stage.Workload{Name: "probe", Resource: "nvidia.com/gpu.shared"}.Pod()
		pod.Namespace = "default"
		pod.Spec.Containers[0].Resources.Limits["nvidia.com/gpu.shared"] = resource.MustParse("2")
		_, err = n.Client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("it is not")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
