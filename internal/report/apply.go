// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
)

// label applies labels and takes away those of ours that are not among them. It does not force: who else writes a label is in the error.
func label(ctx context.Context, client kubernetes.Interface, node string, labels map[string]string) error {
	want := applycorev1.Node(node)
	if len(labels) > 0 {
		want = want.WithLabels(labels)
	}
	if _, err := client.CoreV1().Nodes().Apply(ctx, want, metav1.ApplyOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("label node %s: %w", node, err)
	}
	return nil
}

// holdersOf reads from the API server's refusal which of the labels other managers hold with other values, and who.
func holdersOf(err error, labels map[string]string) map[string]string {
	holders := map[string]string{}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.ErrStatus.Details == nil {
		return holders
	}
	for _, cause := range status.ErrStatus.Details.Causes {
		key, isLabel := strings.CutPrefix(cause.Field, ".metadata.labels.")
		if _, wanted := labels[key]; cause.Type == metav1.CauseTypeFieldManagerConflict && isLabel && wanted {
			holders[key] = cmp.Or(managerIn(cause.Message), "another manager")
		}
	}
	return holders
}

// managerIn takes the name out of: conflict with "nfd-master" using v1.
func managerIn(message string) string {
	start := strings.IndexByte(message, '"')
	if start < 0 {
		return ""
	}
	quoted, err := strconv.QuotedPrefix(message[start:])
	if err != nil {
		return ""
	}
	name, _ := strconv.Unquote(quoted) // what was quoted can be unquoted
	return name
}
