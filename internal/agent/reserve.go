// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpuslice/internal/state"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/mig"
)

// ErrHeld is wrapped when a claim asks for what another holds.
var ErrHeld = fmt.Errorf("held by another")

// Reserve makes sure that a claim holds its devices, by physical overlap and claim UID, and writes the intent before it
// answers. The same claim gets the same answer again (P6). Calls about one claim must take turns.
func (a *Agent) Reserve(c state.Claim, names []string) ([]Device, error) {
	held, undo, err := a.hold(&c, names)
	if err != nil || undo == nil {
		return held, err
	}
	// The disk is not waited for under the lock: others see the devices as held meanwhile.
	if err := a.store.SaveClaim(c); err != nil {
		undo()
		return nil, fmt.Errorf("claim %s: %w", c, err)
	}
	a.mu.Lock()
	delete(a.unreadable, c.UID)
	a.mu.Unlock()
	return held, nil
}

// hold marks the devices as the claim's, in memory. undo is nil when they were before, and are on disk.
func (a *Agent) hold(c *state.Claim, names []string) (held []Device, undo func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.view == nil {
		return nil, nil, fmt.Errorf("claim %s: %w: the layout of this node is not verified yet", c, ErrNotOffered)
	}
	if _, again := a.unreadable[c.UID]; len(a.unreadable) > 0 && !again {
		return nil, nil, fmt.Errorf("claim %s: %w: what other claims hold is not known: %s", c, ErrHeld, slices.Sorted(maps.Values(a.unreadable))[0])
	}
	for i, name := range names {
		d, err := a.find(c, i, name)
		if err != nil {
			return nil, nil, err
		}
		held = append(held, d)
	}
	before, known := a.claims[c.UID]
	if known && slices.Equal(before.Devices, c.Devices) {
		return held, nil, nil
	}
	a.claims[c.UID] = *c
	a.answers++
	return held, func() { a.putBack(c.UID, before, known) }, nil
}

func (a *Agent) putBack(uid string, before state.Claim, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known {
		a.claims[uid] = before
	} else {
		delete(a.claims, uid)
	}
}

// find looks up the i-th device of a claim and makes sure that the claim may have it.
func (a *Agent) find(c *state.Claim, i int, name string) (Device, error) {
	d, ok := a.view.Device(name)
	if !ok || d.API != DRA {
		return Device{}, fmt.Errorf("claim %s: device %s: %w; there are %s", c, name, ErrNotOffered, draNames(a.view))
	}
	c.Devices[i] = describe(c.Devices[i], d)
	if before := a.boundGPU(c.UID, name); before != "" && before != d.GPU.UUID {
		return Device{}, fmt.Errorf("claim %s: device %s was GPU %s when it was prepared and is %s now", c, name, before, d.GPU.UUID)
	}
	if err := a.isFree(*c, c.Devices[i], d); err != nil {
		return Device{}, fmt.Errorf("claim %s: device %s: %w", c, name, err)
	}
	return d, nil
}

// boundGPU is the GPU that a name of a claim stands for since its intent was written: minor numbers can move to others.
func (a *Agent) boundGPU(uid, name string) string {
	for _, d := range a.claims[uid].Devices {
		if d.Name == name {
			return d.GPU
		}
	}
	return ""
}

func describe(s state.Device, d Device) state.Device {
	s.Name, s.GPU, s.ProfileID = d.Name, d.GPU.UUID, -1
	if d.Instance != nil {
		s.ProfileID, s.Start = d.Instance.Slot.Profile.ID, d.Instance.Slot.Start
	}
	return s
}

// isFree is the last line of defence: the scheduler has decided already, but a force-deleted pod may still hold the device.
func (a *Agent) isFree(c state.Claim, want state.Device, d Device) error {
	if want.Admin {
		return nil
	}
	if d.Fault != "" {
		if _, again := a.claims[c.UID]; !again {
			return fmt.Errorf("unhealthy: %s", d.Fault)
		}
	}
	if _, again := a.claims[c.UID]; d.GPU.Released != "" && !again {
		return fmt.Errorf("%w: %s", devices.ErrReleased, d.GPU.Released)
	}
	for _, other := range a.claims {
		if other.UID == c.UID {
			continue
		}
		for _, have := range other.Devices {
			if !have.Admin && overlaps(have, want, d) {
				return fmt.Errorf("%w: claim %s holds %s", ErrHeld, other, have.Name)
			}
		}
	}
	return nil
}

func overlaps(have, want state.Device, d Device) bool {
	if have.GPU != want.GPU {
		return false
	}
	if have.Whole() || want.Whole() {
		return true
	}
	p, ok := d.GPU.Geometry.ByID(have.ProfileID)
	return !ok || d.Instance.Slot.Overlaps(mig.Slot{Profile: p, Start: have.Start})
}

func draNames(v *View) string {
	names := []string{}
	for _, d := range v.Devices {
		if d.API == DRA {
			names = append(names, d.Name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// Release forgets a claim; an unknown one is success. It needs neither hardware nor API server.
func (a *Agent) Release(uid string) error {
	if err := a.store.DeleteClaim(uid); err != nil {
		return fmt.Errorf("claim %s: %w", uid, err)
	}
	a.mu.Lock()
	delete(a.claims, uid)
	delete(a.unreadable, uid)
	a.mu.Unlock()
	a.Kick()
	return nil
}

// Claims returns the claims that are prepared, by UID.
func (a *Agent) Claims() map[string]state.Claim {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := map[string]state.Claim{}
	maps.Copy(all, a.claims)
	return all
}
