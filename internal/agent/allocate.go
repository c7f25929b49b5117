// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuslice/pkg/devices"
)

// ErrNotOffered is wrapped when a device is asked for that is not in the view.
var ErrNotOffered = errors.New("not offered")

// answer is one id that we told the kubelet it may use.
type answer struct {
	resource, id string
	at           time.Time
	shown        bool // the kubelet's record has shown it once
}

// catchUp is how long the kubelet may take from our answer to its record of it; it writes within milliseconds.
const catchUp = 10 * time.Second

// isOver says that a record read at the given time omits the answer because it is over, not because it is new.
func (a answer) isOver(read time.Time) bool { return a.shown || read.Sub(a.at) > catchUp }

// Lookup finds the devices behind ids of one container, each once, in the order asked. It is a pure function of the view.
func (v *View) Lookup(resource string, ids []string) ([]Device, error) {
	list, ok := v.Lists[resource]
	if !ok {
		return nil, fmt.Errorf("resource %s: %w; there are %s", resource, ErrNotOffered, strings.Join(v.Resources(), ", "))
	}
	found := []Device{}
	for _, id := range ids {
		i := slices.IndexFunc(list, func(l Listed) bool { return l.ID == id && l.Device != nil })
		if i < 0 {
			return nil, fmt.Errorf("device %s of %s: %w; there are %s", id, resource, ErrNotOffered, idsOf(list))
		}
		d := *list[i].Device
		if d.Fault != "" {
			return nil, fmt.Errorf("device %s of %s is unhealthy: %s", id, resource, d.Fault)
		}
		if d.GPU.Released != "" {
			return nil, fmt.Errorf("device %s of %s: %w: %s", id, resource, devices.ErrReleased, d.GPU.Released)
		}
		if d.OnePerContainer && len(ids) > 1 {
			return nil, fmt.Errorf("resource %s: a container asks for %d shares, at most 1 is allowed: failRequestsGreaterThanOne is set", resource, len(ids))
		}
		if !slices.ContainsFunc(found, func(x Device) bool { return x.UUID == d.UUID }) {
			found = append(found, d)
		}
	}
	return found, nil
}

// maxNamed bounds how many ids an error message lists.
const maxNamed = 16

func idsOf(list []Listed) string {
	names := []string{}
	for _, l := range list {
		if l.Device != nil {
			names = append(names, l.ID)
		}
	}
	if more := len(names) - maxNamed; more > 0 {
		return strings.Join(names[:maxNamed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// Allocate gives devices to one container each, all or none. It answers from memory (P10) and remembers the answer until
// the kubelet's own record shows it, under the lock that shrinks the view: what goes is never given out.
func (a *Agent) Allocate(resource string, containers [][]string) ([][]Device, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.view == nil {
		return nil, fmt.Errorf("resource %s: %w: the layout of this node is not verified yet", resource, ErrNotOffered)
	}
	all := make([][]Device, len(containers))
	for i, ids := range containers {
		found, err := a.view.Lookup(resource, ids)
		if err != nil {
			return nil, err
		}
		all[i] = found
	}
	for _, ids := range containers {
		for _, id := range ids {
			a.remember(answer{resource: resource, id: id, at: time.Now()})
		}
	}
	a.answers++
	return all, nil
}

// remember keeps one answer per id: the last one says from when the kubelet's record counts.
func (a *Agent) remember(given answer) {
	for i, known := range a.allocated {
		if known.resource == given.resource && known.id == given.id {
			a.allocated[i] = given
			return
		}
	}
	a.allocated = append(a.allocated, given)
}
