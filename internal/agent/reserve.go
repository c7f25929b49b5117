// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpuslice/internal/state"
	"gpuslice/pkg/mig"
)

// ErrHeld is wrapped when a claim asks for what another holds.
var ErrHeld = fmt.Errorf("held by another")

// Reserve makes sure that a claim holds its devices, by physical overlap and claim UID, and writes the intent before it
// answers. The same claim gets the same answer again (P6).
func (a *Agent) Reserve(c state.Claim, names []string) ([]Device, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.view == nil {
		return nil, fmt.Errorf("claim %s: %w: the layout of this node is not verified yet", c, ErrNotOffered)
	}
	if _, again := a.unreadable[c.UID]; len(a.unreadable) > 0 && !again {
		return nil, fmt.Errorf("claim %s: %w: what other claims hold is not known: %s", c, ErrHeld, slices.Sorted(maps.Values(a.unreadable))[0])
	}
	held := make([]Device, len(names))
	for i, name := range names {
		d, ok := a.view.Device(name)
		if !ok || d.API != DRA {
			return nil, fmt.Errorf("claim %s: device %s: %w; there are %s", c, name, ErrNotOffered, draNames(a.view))
		}
		c.Devices[i] = describe(c.Devices[i], d)
		if before := a.boundGPU(c.UID, name); before != "" && before != d.GPU.UUID {
			return nil, fmt.Errorf("claim %s: device %s was GPU %s when it was prepared and is %s now", c, name, before, d.GPU.UUID)
		}
		if err := a.isFree(c, c.Devices[i], d); err != nil {
			return nil, fmt.Errorf("claim %s: device %s: %w", c, name, err)
		}
		held[i] = d
	}
	if err := a.keepIntent(c); err != nil {
		return nil, err
	}
	return held, nil
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

// keepIntent writes what a claim holds before anybody is told; the same again is not written again.
func (a *Agent) keepIntent(c state.Claim) error {
	if known, ok := a.claims[c.UID]; ok && slices.Equal(known.Devices, c.Devices) {
		return nil
	}
	if err := a.store.SaveClaim(c); err != nil {
		return fmt.Errorf("claim %s: %w", c, err)
	}
	a.claims[c.UID] = c
	delete(a.unreadable, c.UID)
	a.answers++
	return nil
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
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.store.DeleteClaim(uid); err != nil {
		return fmt.Errorf("claim %s: %w", uid, err)
	}
	delete(a.claims, uid)
	delete(a.unreadable, uid)
	a.Kick()
	return nil
}

// Claims returns the claims that are prepared, by UID.
func (a *Agent) Claims() map[string]state.Claim {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := map[string]state.Claim{}
	for uid, c := range a.claims {
		all[uid] = c
	}
	return all
}
