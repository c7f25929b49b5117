// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gpuslice/pkg/mig"
)

// ErrModePending is wrapped when a MIG mode was accepted but is not active.
var ErrModePending = errors.New("MIG mode is not active yet")

// cutter changes how one GPU is cut.
type cutter struct {
	hw  *Hardware
	pci string
}

// On binds to the GPU at a PCI address.
func (h *Hardware) On(pci string) mig.Partitioner { return cutter{hw: h, pci: pci} }

func (c cutter) do(ctx context.Context, what string, fn func(GPUHandle) error) error {
	return explained(c.named(ctx, c.hw.withGPU(ctx, c.pci, what, fn)))
}

// withGPU runs fn with a handle in the open session, which it opens if a release has closed it.
func (h *Hardware) withGPU(ctx context.Context, pci, what string, fn func(GPUHandle) error) error {
	if err := h.reopen(ctx, pci); err != nil {
		return err
	}
	return h.call(ctx, pci, what+" on GPU "+pci, func() error {
		gpu, err := h.driver.GPUByBusID(longBusID(pci))
		if err != nil {
			return fmt.Errorf("open GPU: %w", err)
		}
		return fn(gpu)
	})
}

// named says who holds the GPU when the driver says only that somebody does.
func (c cutter) named(ctx context.Context, err error) error {
	if !errors.Is(err, ErrInUse) {
		return err
	}
	holders, _ := c.hw.Clients(ctx, c.pci) // the refusal is the news; who holds it is a help
	if len(holders) == 0 {                 // modules are worth a word only when nothing else holds it
		holders = c.hw.opts.Holders.Modules()
	}
	if len(holders) == 0 {
		return err
	}
	return fmt.Errorf("%w: held by %s", err, strings.Join(holders, ", "))
}

// Clients names the other processes that work with a GPU, as far as they can be seen. The look goes through files of every
// process, any of which may hang, so it is bounded like a call of the driver.
func (h *Hardware) Clients(ctx context.Context, pci string) ([]string, error) {
	h.mu.Lock()
	gpu := h.known[pci]
	h.mu.Unlock()
	found := make(chan []string, 1)
	err := h.bounds.do(ctx, "holders", "look who works with GPU "+pci, func() error {
		found <- h.opts.Holders.Clients(longBusID(pci), gpu.Minor)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return <-found, nil
}

// SetMode switches MIG mode and looks whether it took effect: the call's success says only that it was accepted.
func (c cutter) SetMode(ctx context.Context, on bool) error {
	return c.do(ctx, mig.SetMode{On: on}.String(), func(gpu GPUHandle) error {
		activation, err := c.hw.driver.SetMIGMode(gpu, on)
		if err != nil {
			return err
		}
		if errors.Is(activation, ErrResetRequired) {
			return fmt.Errorf("%w: %w: %w", ErrModePending, mig.ErrNeedsReset, activation)
		}
		if activation != nil {
			return fmt.Errorf("%w: %w", ErrModePending, activation)
		}
		current, _, err := c.hw.driver.MIGMode(gpu)
		if err != nil {
			return fmt.Errorf("read mode back: %w", err)
		}
		if current != on {
			return fmt.Errorf("%w: it is still mig=%s", ErrModePending, onOff(current))
		}
		return nil
	})
}

// Create makes a GPU instance and the compute instance that fills it. The two are one step: when the second fails,
// the first goes again.
func (c cutter) Create(ctx context.Context, s mig.Slot) error {
	return c.do(ctx, mig.Create{Slot: s}.String(), func(gpu GPUHandle) error {
		at := Placement{Start: s.Start, Size: s.Profile.MemorySlices}
		gi, err := c.hw.driver.CreateGI(gpu, s.Profile.ID, at)
		if err != nil {
			return fmt.Errorf("create GPU instance: %w", err)
		}
		if err := c.fill(gi, s.Profile); err != nil {
			return errors.Join(err, wrapUnlessNil("undo GPU instance", c.hw.driver.DestroyGI(gi)))
		}
		return nil
	})
}

func wrapUnlessNil(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// fill creates the compute instance that spans the whole GPU instance.
func (c cutter) fill(gi GIHandle, p mig.Profile) error {
	for enum := range CIProfileEnums {
		ci, err := c.hw.driver.CIProfile(gi, enum)
		if err != nil || ci.Slices != p.ComputeSlices {
			continue
		}
		if _, err := c.hw.driver.CreateCI(gi, ci.ID); err != nil {
			return fmt.Errorf("create compute instance of profile %d: %w", ci.ID, err)
		}
		return nil
	}
	return fmt.Errorf("create compute instance: the driver offers none of %d slices: %w", p.ComputeSlices, ErrNotSupported)
}

// Destroy takes an instance away with its compute instances. It looks the instance up by id and checks its placement,
// because ids are used again. One that is gone already is success.
func (c cutter) Destroy(ctx context.Context, i mig.Instance) error {
	return c.do(ctx, mig.Destroy{Instance: i}.String(), func(gpu GPUHandle) error {
		gi, err := c.find(gpu, i)
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		cis, err := computeInstances(c.hw.driver, gi)
		if err != nil {
			return err
		}
		for _, ci := range cis {
			if err := c.hw.driver.DestroyCI(ci.handle); err != nil {
				return fmt.Errorf("destroy compute instance %d: %w", ci.info.ID, err)
			}
		}
		if err := c.hw.driver.DestroyGI(gi); err != nil {
			return fmt.Errorf("destroy GPU instance %d: %w", i.GI, err)
		}
		return nil
	})
}

func (c cutter) find(gpu GPUHandle, i mig.Instance) (GIHandle, error) {
	gis, err := c.hw.driver.GIs(gpu, i.Slot.Profile.ID)
	if err != nil {
		return 0, fmt.Errorf("list GPU instances: %w", err)
	}
	for _, gi := range gis {
		info, err := c.hw.driver.GIInfo(gi)
		if err != nil {
			return 0, fmt.Errorf("read GPU instance: %w", err)
		}
		if info.ID == i.GI && info.Placement.Start == i.Slot.Start {
			return gi, nil
		}
	}
	return 0, ErrNotFound
}
