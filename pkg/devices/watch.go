// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"gpuslice/pkg/health"
)

const (
	// waitSlice is how long one wait for events lasts: a session is closed between two waits only, and each wait wakes an idle
	// process.
	waitSlice = 5 * time.Second
	// briefSlice is for a node of which some GPU is let go: its session is closed again and again.
	briefSlice = 500 * time.Millisecond
	// firstRewatch and lastRewatch space out attempts to watch; polling goes on meanwhile.
	firstRewatch = time.Second
	lastRewatch  = 30 * time.Second
	// unwatchable is how often a node without events is asked again.
	unwatchable = 5 * time.Second
)

// Report is an event of a GPU, by PCI address, with the recovery action that was read right after it. The zero Report says only
// that somebody should look.
type Report struct {
	PCI    string
	Event  uint64 // EventXID, EventGPUUnavailable or EventRecoveryAction
	XID    uint64 // of an EventXID
	GI, CI int    // NoInstance: all of the GPU
	Action health.RecoveryAction
}

// Watch tells every event of any GPU, in order, and whenever waiting itself fails, until ctx ends. It is not the only source of
// truth: a driver without events is polled all the same, and what happens between two sessions is found by looking.
func (h *Hardware) Watch(ctx context.Context, tell func(Report)) error {
	delay := firstRewatch
	for ctx.Err() == nil {
		session := h.gate.session()
		err := h.watchOnce(ctx, session, tell)
		pause := firstRewatch
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil || errors.Is(err, errSessionEnded):
			delay = firstRewatch
		case errors.Is(err, ErrNotSupported):
			pause = unwatchable
		default: // somebody must look, and it must not be asked for ever faster than it fails
			tell(Report{})
			pause, delay = delay, min(2*delay, lastRewatch)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-h.gate.next(session):
			if session == 0 { // the first list of this process does not wait for that of the events
				wait(ctx, firstRewatch)
			}
		}
		timer.Stop()
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// watchOnce watches the GPUs that are known now until one comes or goes, or waiting fails.
func (h *Hardware) watchOnce(ctx context.Context, session int, tell func(Report)) error {
	pcis := h.knownGPUs()
	if len(pcis) == 0 {
		return ErrNotSupported
	}
	var set EventSet
	var gpus map[GPUHandle]string
	err := h.callIn(ctx, session, "events", "watch for events", func() (err error) {
		if set, gpus, err = h.register(pcis); err == nil {
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
		events := make(chan Event, 1) // not a variable: an abandoned call must not write into what we read
		err := h.callIn(ctx, session, "events", "wait for events", func() error {
			e, err := set.Wait(h.slice())
			if err == nil {
				events <- e
			}
			return err
		})
		switch {
		case err == nil:
			tell(h.report(ctx, session, <-events, gpus))
		case errors.Is(err, ErrTimeout):
		default:
			return err
		}
	}
	return nil
}

// report asks what the GPU needs now; one that does not answer that any more is told of all the same.
func (h *Hardware) report(ctx context.Context, session int, e Event, gpus map[GPUHandle]string) Report {
	pci, known := gpus[e.GPU]
	if !known {
		return Report{}
	}
	r := Report{PCI: pci, Event: e.Type, GI: e.GI, CI: e.CI}
	if e.Type == EventXID {
		r.XID = e.Data
	}
	action := make(chan health.RecoveryAction, 1)
	err := h.callIn(ctx, session, pci, "read recovery action", func() error {
		signs, err := readSigns(h.driver, e.GPU)
		action <- signs.Action
		return err
	})
	if err == nil {
		r.Action = <-action
	}
	return r
}

// slice is how long one wait may last.
func (h *Hardware) slice() time.Duration {
	if h.mu.TryLock() {
		defer h.mu.Unlock()
		if len(h.released) == 0 {
			return waitSlice
		}
	}
	return briefSlice // somebody may be waiting to close the session
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
func (h *Hardware) register(pcis []string) (EventSet, map[GPUHandle]string, error) {
	set, err := h.driver.NewEventSet()
	if err != nil {
		h.polled.set(pcis, pcis)
		return nil, nil, fmt.Errorf("make event set: %w", err)
	}
	registered, silent := map[GPUHandle]string{}, []string{}
	for _, pci := range pcis {
		gpu, err := h.driver.GPUByBusID(longBusID(pci))
		if err != nil {
			continue
		}
		types, err := h.driver.EventTypes(gpu)
		if err == nil {
			err = set.Register(gpu, types&(EventXID|EventGPUUnavailable|EventRecoveryAction))
		}
		if err == nil {
			registered[gpu] = pci
		} else {
			silent = append(silent, pci)
		}
	}
	h.polled.set(pcis, silent)
	if len(registered) == 0 {
		return nil, nil, errors.Join(ErrNotSupported, set.Close())
	}
	return set, registered, nil
}

// polled is the GPUs whose events could not be asked for when it was tried last.
type polled struct {
	mu   sync.Mutex
	pcis []string
}

// set takes in which of those that were asked are silent; of the others, which are let go of, nothing is known anew.
func (p *polled) set(asked, silent []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := slices.DeleteFunc(slices.Clone(p.pcis), func(pci string) bool { return slices.Contains(asked, pci) })
	p.pcis = append(kept, silent...)
}

func (p *polled) has(pci string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.pcis, pci)
}
