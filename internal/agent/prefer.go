// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/timeslice"
	"gpuslice/pkg/topology"
)

// completeAfter is how long after the first view the rest is read: by then the kubelet has the list.
const completeAfter = 200 * time.Millisecond

// linked is what whole GPUs are chosen by, and what that was computed from. Converge alone uses it.
type linked struct {
	uuids   []string
	links   topology.Matrix
	chooser *topology.Chooser
}

// weigh brings the published view up to date with how the GPUs reach each other. It comes last, so that neither reading links nor
// computing with them keeps devices from being offered; both are done when GPUs come or go, not when somebody asks (P10).
func (a *Agent) weigh(ctx context.Context, n devices.Node) {
	if !slices.Contains(a.opts.APIs, DevicePlugin) {
		return
	}
	now := linked{links: a.hw.ReadLinks(ctx, n.GPUs)}
	pciOf := map[string]string{}
	for _, g := range n.GPUs {
		if g.UUID != "" {
			now.uuids = append(now.uuids, g.UUID)
			pciOf[g.UUID] = g.PCI
		}
	}
	if a.linked.chooser != nil && slices.Equal(now.uuids, a.linked.uuids) && maps.Equal(now.links, a.linked.links) {
		return
	}
	now.chooser = topology.NewChooser(now.uuids, func(x, y string) topology.Link { return now.links.Between(pciOf[x], pciOf[y]) })
	a.linked = now
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.view != nil {
		v := *a.view
		v.Node.Links, v.chooser = now.links, now.chooser
		a.view = &v // no list has changed, so nobody is woken
	}
}

// Prefer chooses among the ids that the kubelet offers for one container. It never fails a legal request.
func (v *View) Prefer(resource string, available, required []string, size int) []string {
	list := v.Lists[resource]
	i := slices.IndexFunc(list, func(l Listed) bool { return l.Device != nil })
	if i < 0 {
		return timeslice.Prefer(timeslice.Spread, timeslice.Request{Available: available, Required: required, Size: size, Replicas: 1})
	}
	d := list[i].Device
	switch {
	case d.Instance != nil && d.Replicas <= 1:
		return v.preferPacked(list, available, required, size)
	case v.chooser != nil && !slices.ContainsFunc(list, Listed.isPart):
		return v.chooser.Choose(available, required, size)
	}
	return timeslice.Prefer(d.Policy, timeslice.Request{Available: available, Required: required, Size: size, Replicas: d.Replicas})
}

// isPart says that the entry is a share or an instance, not a whole GPU.
func (l Listed) isPart() bool {
	return l.Device != nil && (l.Device.Instance != nil || l.Device.Replicas > 1)
}

// preferPacked takes instances from the GPUs of which most is in use, so that whole GPUs stay empty.
func (v *View) preferPacked(list []Listed, available, required []string, size int) []string {
	gpuOf, total := map[string]string{}, map[string]int{}
	for _, l := range list {
		if l.Device != nil {
			gpuOf[l.ID] = l.Device.GPU.UUID
			total[l.Device.GPU.UUID]++
		}
	}
	free := map[string]int{}
	for _, id := range available {
		free[gpuOf[id]]++
	}
	order := slices.Clone(available)
	slices.SortStableFunc(order, func(x, y string) int {
		gx, gy := gpuOf[x], gpuOf[y]
		if used := (total[gy] - free[gy]) - (total[gx] - free[gx]); used != 0 {
			return used
		}
		if free[gx] != free[gy] {
			return free[gx] - free[gy]
		}
		return strings.Compare(gx+"\x00"+x, gy+"\x00"+y)
	})
	chosen := slices.Clone(required)
	for _, id := range order {
		if len(chosen) >= size {
			break
		}
		if !slices.Contains(chosen, id) {
			chosen = append(chosen, id)
		}
	}
	return chosen
}
