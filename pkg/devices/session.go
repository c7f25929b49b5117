// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// open starts a session; a driver that is not there yet is asked again next time. One that takes longer than we wait is not asked
// again: its answer counts when it comes.
func (h *Hardware) open(ctx context.Context) error {
	if h.opened {
		return nil
	}
	if !h.initialised.Load() {
		if err := h.bounds.suspect(""); err == nil {
			h.bound = h.opts.Bound()
		}
		if err := h.bounds.do(ctx, "", "open the driver", h.initialise); err != nil {
			return fmt.Errorf("open the driver: %w", err)
		}
	}
	h.opened = true
	h.gate.open()
	return nil
}

// ErrOutdatedLibrary is wrapped by Init when another version of the driver's library has been installed since this process loaded
// one, and the driver does not take the one that is loaded.
var ErrOutdatedLibrary = errors.New("another version of the driver's library has been installed, which only a new process can load")

// Outdated says that only a new process can open the driver that is installed now.
func (h *Hardware) Outdated() bool { return h.outdated.Load() }

func (h *Hardware) initialise() error {
	platform := h.opts.Platforms.Platform()
	if err := platform.refuses(); err != nil {
		return err
	}
	if err := h.driver.Init(); err != nil {
		h.outdated.Store(errors.Is(err, ErrOutdatedLibrary))
		return platform.explain(err)
	}
	h.initialised.Store(true)
	return nil
}

// followKernel ends a session when the kernel has bound other GPUs to the driver since it was opened: a session goes on with
// those that it found at its start, so one that was plugged in or pulled out is seen by the next one only.
func (h *Hardware) followKernel(ctx context.Context) {
	if !h.opened || h.bounds.isAnyLate() {
		return
	}
	if now := h.opts.Bound(); now != nil && !slices.Equal(now, h.bound) {
		_ = h.closeSession(ctx) // if it cannot be closed now, it goes on, and the next pass tries again
	}
}

// proveLost ends a session in which a GPU was lost for the first time: before the hardware is blamed, another session is asked.
func (h *Hardware) proveLost(ctx context.Context) {
	for _, session := range h.lost {
		if h.opened && session == h.gate.session() && !h.bounds.isAnyLate() {
			_ = h.closeSession(ctx) // if it cannot be closed now, it goes on, and the next pass tries again
			return
		}
	}
}

// noteLost remembers in which session a GPU was lost first; one that is no longer listed is gone, not lost.
func (h *Hardware) noteLost(g *GPU) {
	if !errors.Is(g.Fault, ErrLost) || errors.Is(g.Fault, ErrGone) {
		delete(h.lost, g.PCI)
		return
	}
	first, known := h.lost[g.PCI]
	if !known {
		first = h.gate.session()
		h.lost[g.PCI] = first
	}
	g.Lost = first < h.gate.session()
}

// call bounds a call of the open session.
func (h *Hardware) call(ctx context.Context, key, operation string, fn func() error) error {
	return h.callIn(ctx, 0, key, operation, fn)
}

// callIn is call for a session that is known by its number.
func (h *Hardware) callIn(ctx context.Context, generation int, key, operation string, fn func() error) error {
	return h.bounds.do(ctx, key, operation, func() error {
		if err := h.gate.enter(generation); err != nil {
			return fmt.Errorf("%s: %w", operation, err)
		}
		defer h.gate.leave()
		return fn()
	})
}

// reopenIfClosed ends a session that the driver has ended, so that a reloaded driver is picked up.
func (h *Hardware) reopenIfClosed(ctx context.Context, err error) {
	if errors.Is(err, ErrUninitialized) || errors.Is(err, ErrDriverNotLoaded) || errors.Is(err, ErrVersionMismatch) {
		// The session is dead already: what Shutdown says of it changes nothing, but one that hangs must not keep everyone waiting.
		_ = h.bounds.do(ctx, "", "close the driver", h.driver.Shutdown)
		h.opened = false
		h.initialised.Store(false)
		h.gate.takeSets()
	}
}

// Close ends the session.
func (h *Hardware) Close(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closeSession(ctx)
}

// closeSession lets go of everything.
func (h *Hardware) closeSession(ctx context.Context) error {
	if !h.opened && !h.initialised.Load() {
		return nil
	}
	if err := h.gate.close(ctx, max(h.opts.CallLimit, 2*waitSlice)); err != nil {
		return err
	}
	h.opened = false
	h.initialised.Store(false)
	return h.bounds.do(ctx, "", "close the driver", func() error {
		for _, set := range h.gate.takeSets() {
			_ = set.Close() // the end of the session ends it too
		}
		return h.driver.Shutdown()
	})
}
