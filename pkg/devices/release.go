// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// AllGPUs stands for every GPU where GPUs are named by PCI address.
const AllGPUs = ""

// ErrReleased is wrapped by calls about a GPU that this process keeps its hands off.
var ErrReleased = errors.New("released")

// resetLimit is how long a reset may take: NVIDIA's tools give it a minute.
const resetLimit = 2 * time.Minute

// SetReleased says which GPUs this process keeps its hands off, with the reason, by PCI address; AllGPUs stands for every
// one. Where it must let go of more than before, the session is closed, because the driver knows no other way, and opened
// again for the rest. It fails, and changes nothing, while a call hangs in the driver.
func (h *Hardware) SetReleased(ctx context.Context, why map[string]string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.setReleased(ctx, why)
}

func (h *Hardware) setReleased(ctx context.Context, why map[string]string) error {
	more := slices.ContainsFunc(slices.Collect(maps.Keys(why)), func(pci string) bool { return h.released[pci] == "" })
	if more {
		if err := h.closeSession(ctx); err != nil {
			return err
		}
	}
	h.released = maps.Clone(why)
	return nil
}

// reopen opens the session for a GPU that is not released.
func (h *Hardware) reopen(ctx context.Context, pci string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range []string{pci, AllGPUs} {
		if why := h.released[key]; why != "" {
			return fmt.Errorf("GPU %s: %w: %s", pci, ErrReleased, why)
		}
	}
	return h.open(ctx)
}

// remembered is the node as it was read last, without the driver.
func (h *Hardware) remembered() Node {
	node := Node{Links: h.linkage.matrix, Load: h.opts.Load()}
	for _, pci := range slices.Sorted(maps.Keys(h.known)) {
		g := h.known[pci].GPU
		g.Released, g.Polled = h.released[AllGPUs], h.polled.has(pci)
		node.GPUs = append(node.GPUs, g)
	}
	return node
}

// stillBound leaves out what the kernel has taken from the driver, as far as it says.
func (h *Hardware) stillBound(pcis []string) []string {
	bound := h.opts.Bound()
	return slices.DeleteFunc(pcis, func(pci string) bool { return bound != nil && !slices.Contains(bound, pci) })
}

func (h *Hardware) notReleased() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(h.known)), func(pci string) bool { return h.released[pci] != "" })
}

// Persistence says whether persistence mode is on; a driver without it has it off.
func (h *Hardware) Persistence(ctx context.Context, pci string) (bool, error) {
	on := make(chan bool, 1)
	err := cutter{h, pci}.do(ctx, "read persistence mode", func(gpu GPUHandle) error {
		is, err := optional(h.driver.PersistenceMode(gpu))
		on <- is
		return err
	})
	if err != nil {
		return false, err
	}
	return <-on, nil
}

// SetPersistence turns persistence mode on or off and reads it back.
func (h *Hardware) SetPersistence(ctx context.Context, pci string, on bool) error {
	return cutter{h, pci}.do(ctx, "set persistence="+onOff(on), func(gpu GPUHandle) error {
		if err := h.driver.SetPersistenceMode(gpu, on); err != nil {
			return err
		}
		is, err := h.driver.PersistenceMode(gpu)
		switch {
		case err != nil:
			return fmt.Errorf("read persistence mode back: %w", err)
		case is != on:
			return fmt.Errorf("persistence mode reads back as %s", onOff(is))
		}
		return nil
	})
}

// Reset resets an idle GPU so that its pending mode becomes its mode. This process lets go of the GPU meanwhile.
func (c cutter) Reset(ctx context.Context) error {
	wanted, active, err := c.mode(ctx)
	if err != nil || active {
		return err
	}
	if err := c.hw.reset(ctx, c.pci); err != nil {
		return c.named(ctx, err)
	}
	if _, active, err = c.mode(ctx); err != nil {
		return err
	}
	if !active {
		return fmt.Errorf("the reset answered success and the GPU is still not mig=%s: %w", onOff(wanted), ErrModePending)
	}
	return nil
}

// Reset resets a GPU that nobody uses. This process lets go of it meanwhile.
func (h *Hardware) Reset(ctx context.Context, pci string) error {
	if err := h.reset(ctx, pci); err != nil {
		return cutter{h, pci}.named(ctx, err)
	}
	return nil
}

// mode says which mode is pending, and whether it is active.
func (c cutter) mode(ctx context.Context) (wanted, active bool, err error) {
	type modes struct{ current, pending bool }
	read := make(chan modes, 1)
	err = c.do(ctx, "read MIG mode", func(gpu GPUHandle) error {
		current, pending, err := c.hw.driver.MIGMode(gpu)
		read <- modes{current, pending}
		return err
	})
	if err != nil {
		return false, false, err
	}
	m := <-read
	return m.pending, m.current == m.pending, nil
}

func (h *Hardware) reset(ctx context.Context, pci string) (err error) {
	if h.opts.Program == nil {
		return fmt.Errorf("there is nothing here to reset GPUs with: %w", ErrNotSupported)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.released
	during := map[string]string{pci: "it is being reset"}
	maps.Copy(during, before)
	if err := h.setReleased(ctx, during); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.setReleased(ctx, before)) }() // takes nothing more away, so it closes nothing
	// A reset that is broken off leaves the GPU in no known state, so the end of this process does not end it.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), resetLimit)
	defer cancel()
	if err := h.opts.Program.Reset(limited, longBusID(pci)); err != nil {
		return fmt.Errorf("reset: %w", err)
	}
	return nil
}
