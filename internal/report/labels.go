// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package report

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"

	"gpuslice/internal/config/nvidia"
)

// MemoryLimitLabel says of a node with memory: share whether shares are held to their part: none or enforced.
const MemoryLimitLabel = "gpuslice.dev/memory-limit"

// UnifiedMemoryLabel is "true" on a node where a GPU has no memory of its own and works in the host's.
const UnifiedMemoryLabel = "gpuslice.dev/memory-unified"

// labels are all that this manager writes, by key; "" is a label that shall not be.
func (f Facts) labels() map[string]string {
	unified := ""
	if f.Unified {
		unified = "true"
	}
	return map[string]string{nvidia.MIGPartedStateLabel: f.MIG.State, MemoryLimitLabel: string(f.Memory), UnifiedMemoryLabel: unified}
}

// tellLabels applies the labels in one go, because what a manager leaves out of an application it takes away.
func tellLabels(ctx context.Context, client kubernetes.Interface, node *corev1.Node, f Facts) error {
	want, news := map[string]string{}, false
	for key, value := range f.labels() {
		has, labelled := node.Labels[key]
		switch {
		case value != "":
			want[key] = value
			news = news || has != value
		case labelled && owns(node, key): // not somebody else's
			news = true
		}
	}
	if !news {
		return nil
	}
	return label(ctx, client, node.Name, want)
}

// owns says that we applied a label and nobody has taken it over.
func owns(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == fieldManager && f.Operation == metav1.ManagedFieldsOperationApply && f.FieldsV1 != nil &&
			strings.Contains(f.FieldsV1.GetRawString(), `"f:`+key+`"`)
	})
}

// label applies labels and takes away those of ours that are not among them. It does not force: who else writes a label is in the error.
func label(ctx context.Context, client kubernetes.Interface, node string, labels map[string]string) error {
	want := applycorev1.Node(node)
	if len(labels) > 0 {
		want = want.WithLabels(labels)
	}
	if _, err := client.CoreV1().Nodes().Apply(ctx, want, metav1.ApplyOptions{FieldManager: fieldManager}); err != nil {
		texts := []string{}
		for _, key := range slices.Sorted(maps.Keys(labels)) {
			texts = append(texts, key+"="+labels[key])
		}
		return fmt.Errorf("label node %s with %s: %w", node, strings.Join(texts, ","), err)
	}
	return nil
}
