// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpuslice/pkg/devices"
)

// Dump prints one line per GPU, by index, named by the minor number, with its instances by start:
//
//	gpu-0 h100-sxm5-80gb mig=on [1g.10gb@0 3g.40gb@4*]
//
// "*" marks an instance that a process uses; "{}" a GPU instance without compute instance, "{1c 2c}" one that is divided.
// "pending=on", "needs=reset" and "lost" follow where they apply. A GPU that cannot be cut has no mode, one that is not cut has no list.
func (m *Machine) Dump() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	for _, g := range m.gpus {
		fmt.Fprintln(&b, g)
	}
	return b.String()
}

// String is the GPU in the notation.
func (g *gpu) String() string {
	words := []string{fmt.Sprintf("gpu-%d", g.minor), g.model.key}
	if g.model.canMIG() {
		words = append(words, "mig="+onOff(g.mig))
	}
	if g.mig {
		byStart := slices.SortedFunc(slices.Values(g.gis), func(a, b *gpuInstance) int { return cmp.Compare(a.at.Start, b.at.Start) })
		words = append(words, fmt.Sprint(byStart))
	}
	if g.mig != g.pending {
		words = append(words, "pending="+onOff(g.pending))
	}
	if action := g.signs[devices.FieldRecoveryAction]; action != 0 {
		words = append(words, "needs="+actionName(action))
	}
	if g.lost {
		words = append(words, "lost")
	}
	return strings.Join(words, " ")
}

func (gi *gpuInstance) slot() string { return slot(gi.row.Name, gi.at.Start) }

func slot(profile string, start int) string { return fmt.Sprintf("%s@%d", profile, start) }

// String is the instance in the notation of Dump, which machine files read too.
func (gi *gpuInstance) String() string {
	s := gi.slot()
	if len(gi.cis) != 1 || gi.cis[0].row.ID != gi.row.filling().ID {
		parts := make([]string, len(gi.cis))
		for i, ci := range gi.cis {
			parts[i] = fmt.Sprintf("%dc", ci.row.Slices)
		}
		s += "{" + strings.Join(parts, " ") + "}"
	}
	if gi.gpu.runs(gi.id, devices.NoInstance) {
		s += "*"
	}
	return s
}

func actionName(n uint64) string {
	if n < uint64(len(actionNames)) {
		return actionNames[n]
	}
	return fmt.Sprint(n)
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
