// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gpuslice/internal/agent"
	"gpuslice/internal/config/nvidia"
	"gpuslice/internal/features"
)

// MemoryLimitLabel says of a node with memory: share whether shares are held to their part: none or enforced.
const MemoryLimitLabel = "gpuslice.dev/memory-limit"

// UnifiedMemoryLabel is "true" on a node where a GPU has no memory of its own and works in the host's.
const UnifiedMemoryLabel = "gpuslice.dev/memory-unified"

// TimestampLabel is when the labels of a node were first written, in seconds of Unix. It stays: a restart is no news of a node.
const TimestampLabel = "nvidia.com/gfd.timestamp"

// Hosts reads what is known of a node beside its driver.
type Hosts func(*agent.View) features.Host

func (h Hosts) of(v *agent.View) features.Host {
	if h == nil || v == nil {
		return features.Host{}
	}
	return h(v)
}

// labels are all that this manager writes over those that it wrote before; what is left out goes.
func (f Facts) labels(node *corev1.Node, ours map[string]string) map[string]string {
	before := maps.Clone(ours)
	for _, key := range []string{nvidia.MIGPartedStateLabel, MemoryLimitLabel, TimestampLabel} {
		delete(before, key)
	}
	want := f.Features.Over(before)
	if f.Unified {
		want[UnifiedMemoryLabel] = "true"
	} else if !f.Features.Partial {
		delete(want, UnifiedMemoryLabel)
	}
	for key, value := range map[string]string{nvidia.MIGPartedStateLabel: f.MIG.State, MemoryLimitLabel: string(f.Memory)} {
		if value != "" {
			want[key] = value
		}
	}
	_, labelled := node.Labels[TimestampLabel]
	written, isOurs := ours[TimestampLabel]
	switch {
	case len(want) == 0:
	case isOurs:
		want[TimestampLabel] = written
	case !labelled:
		want[TimestampLabel] = strconv.FormatInt(time.Now().Unix(), 10)
	}
	return want
}

// tellLabels applies the labels in one go, because what a manager leaves out of an application it takes away. Labels that another
// manager holds stay as that manager wrote them, and the others are applied.
func tellLabels(ctx context.Context, client kubernetes.Interface, node *corev1.Node, f Facts) error {
	ours := ownedBy(fieldManager, node)
	want := f.labels(node, ours)
	if !isNews(node, ours, want) {
		return nil
	}
	err := label(ctx, client, node.Name, want)
	holders := holdersOf(err, want)
	if len(holders) == 0 {
		return err
	}
	for key := range holders {
		delete(want, key)
	}
	if err := label(ctx, client, node.Name, want); err != nil {
		return err
	}
	return heldError{node: node.Name, holders: holders}
}

func isNews(node *corev1.Node, ours, want map[string]string) bool {
	for key, value := range want {
		if has, labelled := node.Labels[key]; !labelled || has != value {
			return true
		}
	}
	for key := range ours {
		if _, wanted := want[key]; !wanted {
			return true
		}
	}
	return false
}

// ownedBy lists the labels that a manager applied and that nobody has taken over.
func ownedBy(manager string, node *corev1.Node) map[string]string {
	owned := map[string]string{}
	for _, entry := range node.ManagedFields {
		if entry.Manager != manager || entry.Operation != metav1.ManagedFieldsOperationApply || entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Metadata struct {
				Labels map[string]json.RawMessage `json:"f:labels"`
			} `json:"f:metadata"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		for field := range fields.Metadata.Labels {
			key, isKey := strings.CutPrefix(field, "f:")
			if value, labelled := node.Labels[key]; isKey && labelled {
				owned[key] = value
			}
		}
	}
	return owned
}

// heldError says who else writes labels of ours, by label.
type heldError struct {
	node    string
	holders map[string]string
}

// byManager lists what each manager holds.
func (e heldError) byManager() map[string][]string {
	held := map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(e.holders)) {
		held[e.holders[key]] = append(held[e.holders[key]], key)
	}
	return held
}

func (e heldError) Error() string {
	byManager := e.byManager()
	texts := []string{}
	for _, manager := range slices.Sorted(maps.Keys(byManager)) {
		texts = append(texts, manager+" holds "+strings.Join(byManager[manager], ", "))
	}
	return "label node " + e.node + ": " + strings.Join(texts, "; ") + "; they stay as they are until nobody else writes them"
}

// conflicts says, for each manager, which labels it holds; nil: none.
func conflicts(err error) []agent.Problem {
	held, is := errors.AsType[heldError](err)
	if !is {
		return nil
	}
	byManager := held.byManager()
	problems := []agent.Problem{}
	for _, manager := range slices.Sorted(maps.Keys(byManager)) {
		problems = append(problems, agent.Problem{Reason: agent.ReasonLabelConflict, Message: fmt.Sprintf(
			"field manager %q holds %s with other values; they stay as they are", manager, strings.Join(byManager[manager], ", "))})
	}
	return problems
}

// isHeld says that everything was told but what another manager holds.
func isHeld(err error) bool {
	_, held := errors.AsType[heldError](err)
	return held
}

// holdsState says that another manager holds the label with the state of the MIG config.
func holdsState(err error) bool {
	held, _ := errors.AsType[heldError](err)
	return held.holders[nvidia.MIGPartedStateLabel] != ""
}
