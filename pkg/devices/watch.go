// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// waitSlice is how long one wait for events lasts: a session is closed between two waits only, and each wait wakes an idle
	// process.
	waitSlice = 5 * time.Second
	// watchRetry spaces out attempts to watch; polling goes on meanwhile.
	watchRetry = 5 * time.Second
)

// Watch calls notify after every event of any GPU, and whenever waiting itself fails, until ctx ends. It is a hint to look,
// not a source of truth: a driver without events is polled all the same.
func (h *Hardware) Watch(ctx context.Context, notify func()) error {
	for ctx.Err() == nil {
		if err := h.watchOnce(ctx, notify); err != nil && ctx.Err() == nil && !errors.Is(err, ErrNotSupported) {
			notify()
		}
		timer := time.NewTimer(watchRetry)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// watchOnce watches the GPUs that are known now until one comes or goes, or waiting fails.
func (h *Hardware) watchOnce(ctx context.Context, notify func()) error {
	pcis := h.knownGPUs()
	if len(pcis) == 0 {
		return ErrNotSupported
	}
	session := h.gate.session()
	var set EventSet
	err := h.callIn(ctx, session, "events", "watch for events", func() (err error) {
		if set, err = h.register(pcis); err == nil {
			h.gate.keep(set)
		}
		return err
	})
	if err != nil {
		return err
	}
	defer func() { // nothing depends on it; a session that was closed has closed its sets
		_ = h.callIn(context.WithoutCancel(ctx), session, "events", "end watching", func() error {
			h.gate.drop(set)
			return set.Close()
		})
	}()
	for ctx.Err() == nil && slices.Equal(pcis, h.knownGPUs()) {
		err := h.callIn(ctx, session, "events", "wait for events", func() error {
			_, err := set.Wait(waitSlice)
			return err
		})
		switch {
		case err == nil:
			notify()
		case errors.Is(err, ErrTimeout):
		default:
			return err
		}
	}
	return nil
}

func (h *Hardware) knownGPUs() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.opened {
		return nil
	}
	return h.notReleased()
}

// register leaves out GPUs without events or without an answer; with none left there is nothing to wait for.
func (h *Hardware) register(pcis []string) (EventSet, error) {
	set, err := h.driver.NewEventSet()
	if err != nil {
		return nil, fmt.Errorf("make event set: %w", err)
	}
	registered := 0
	for _, pci := range pcis {
		gpu, err := h.driver.GPUByBusID(longBusID(pci))
		if err != nil {
			continue
		}
		types, err := h.driver.EventTypes(gpu)
		if err != nil {
			continue
		}
		if set.Register(gpu, types&(EventXID|EventGPUUnavailable|EventRecoveryAction)) == nil {
			registered++
		}
	}
	if registered == 0 {
		return nil, errors.Join(ErrNotSupported, set.Close())
	}
	return set, nil
}
