// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"gpuslice/internal/state"
	"gpuslice/pkg/timeslice"
)

// Container is one that is about to start.
type Container struct {
	ID     string // the runtime's
	PID    int    // of its first process, which waits
	PodUID string
	Name   string // in its pod
}

func (c Container) String() string { return fmt.Sprintf("container %s of pod %s", c.Name, c.PodUID) }

// ErrNotHeld is wrapped when a container is to be bounded on a device that the kubelet has not given it.
var ErrNotHeld = errors.New("not held")

type limitKey struct{ container, gpu string }

// limits are what running containers are held to. They are wanted as long as the container's cgroup is there, whatever becomes of
// the config meanwhile. Its lock is held for moments and a file write, never over a call of the driver.
type limits struct {
	store Store

	mu  sync.Mutex
	all map[limitKey]state.Limit
}

func (l *limits) load() error {
	kept, err := l.store.Limits()
	for _, x := range kept {
		l.all[limitKey{x.Container, x.GPU}] = x
	}
	return err
}

func (l *limits) add(x state.Limit) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.store.SaveLimit(x); err != nil {
		return err
	}
	l.all[limitKey{x.Container, x.GPU}] = x
	return nil
}

// drop forgets a limit if it is still the one that is meant.
func (l *limits) drop(x state.Limit) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := limitKey{x.Container, x.GPU}
	if l.all[key] != x {
		return nil
	}
	if err := l.store.DeleteLimit(x); err != nil {
		return err
	}
	delete(l.all, key)
	return nil
}

func (l *limits) list() []state.Limit {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.SortedFunc(maps.Values(l.all), func(x, y state.Limit) int {
		return cmp.Or(cmp.Compare(x.GPU, y.GPU), cmp.Compare(x.Container, y.Container))
	})
}

// LimitMemory holds a container to the memory of its shares before its process starts. When it returns nil, the limits stand and
// outlive this process; where nothing is to be bounded, it is nil too.
func (a *Agent) LimitMemory(ctx context.Context, c Container, uuids []string) error {
	view, err := a.awaitView(ctx)
	if err != nil {
		return err
	}
	wanted, err := a.wantedLimits(view, c, uuids)
	if err != nil || len(wanted) == 0 {
		return err
	}
	for _, w := range wanted {
		if err := a.limit(ctx, w); err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
	}
	a.Kick() // the next pass reads it back on the running container
	return nil
}

// awaitView waits for the first view, which a process has within moments of its start.
func (a *Agent) awaitView(ctx context.Context) (*View, error) {
	for {
		view, changed := a.View()
		if view != nil {
			return view, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the layout of this node is not verified yet: %w", context.Cause(ctx))
		case <-changed:
		}
	}
}

// wanted is a limit to set, and where.
type wanted struct {
	state.Limit
	pci string
}

// wantedLimits turns the shares that a container holds into limits.
func (a *Agent) wantedLimits(v *View, c Container, uuids []string) ([]wanted, error) {
	var held []string
	var folder string
	all := []wanted{}
	for _, uuid := range uuids {
		d, ok := v.byUUID(uuid)
		if !ok {
			return nil, fmt.Errorf("%s: device %s: %w on this node", c, uuid, ErrNotOffered)
		}
		if d.ShareMemory == 0 {
			continue // the config has changed since the container's spec was read
		}
		if held == nil {
			var err error
			if held, err = a.kubelet.Held(c.PodUID, c.Name); err != nil {
				return nil, fmt.Errorf("%s: %w", c, err)
			}
			if folder, err = a.cgroupOf(c); err != nil {
				return nil, err
			}
		}
		n := timeslice.SharesOf(uuid, held)
		if n == 0 {
			return nil, fmt.Errorf("%s: share of device %s: %w; the kubelet says that it holds %q", c, uuid, ErrNotHeld, held)
		}
		l := state.Limit{Container: c.ID, GPU: uuid, Cgroup: folder, Hard: uint64(n) * d.ShareMemory}
		all = append(all, wanted{Limit: l, pci: d.GPU.PCI})
	}
	return all, nil
}

func (a *Agent) cgroupOf(c Container) (string, error) {
	folder, err := a.opts.Cgroups.Of(c.PID)
	if err == nil && a.opts.Cgroups.IsRoot(folder) {
		err = fmt.Errorf("pid %d is in the root cgroup: a limit there would hold everybody", c.PID)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", c, err)
	}
	return folder, nil
}

func (v *View) byUUID(uuid string) (Device, bool) {
	i := slices.IndexFunc(v.Devices, func(d Device) bool { return d.UUID == uuid })
	if i < 0 {
		return Device{}, false
	}
	return v.Devices[i], true
}

// limit keeps what is wanted first, so that a later process knows of it, then sets it. A container whose limit fails does not start.
func (a *Agent) limit(ctx context.Context, w wanted) error {
	if err := a.limits.add(w.Limit); err != nil {
		return err
	}
	if err := a.hw.SetMemoryLimit(ctx, w.pci, w.Cgroup, w.Hard); err != nil {
		return errors.Join(err, a.limits.drop(w.Limit))
	}
	return nil
}
