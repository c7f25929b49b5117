// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/klog/v2"

	"gpuslice/internal/state"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/mig"
)

// carryOut takes the steps of a plan. Persistence mode holds a GPU against a change of its MIG mode, so it is off meanwhile;
// that it was on is on disk first.
func (a *Agent) carryOut(ctx context.Context, t Target) error {
	if !t.Plan.ChangesMode() {
		return mig.Apply(ctx, a.hw.On(t.GPU.PCI), t.Plan)
	}
	if err := a.pausePersistence(ctx, t.GPU); err != nil {
		return err
	}
	err := mig.Apply(ctx, a.hw.On(t.GPU.PCI), t.Plan)
	if resetDidNotHelp(err) {
		err = errors.Join(fmt.Errorf("%w: %w", errNoHelp, err), a.note(t.GPU.UUID, func(g *state.GPU) { g.ResetFailed = err.Error() }))
	}
	return errors.Join(err, a.restorePersistence(ctx, t.GPU))
}

// resetDidNotHelp says that the GPU cannot be reset, or was and is still not in its mode: trying again before the next boot would
// only take the GPU away from others again and again.
func resetDidNotHelp(err error) bool {
	failed, ok := errors.AsType[*mig.StepError](err)
	return ok && failed.Step == (mig.Reset{}) && !errors.Is(err, devices.ErrInUse) &&
		(errors.Is(err, devices.ErrModePending) || errors.Is(err, devices.ErrNotSupported))
}

// errNoHelp marks a failure that the GPU's target tells of from now on.
var errNoHelp = errors.New("the reset did not help")

func (a *Agent) pausePersistence(ctx context.Context, g devices.GPU) error {
	on, err := a.hw.Persistence(ctx, g.PCI)
	if err != nil || !on {
		return err
	}
	if err := a.note(g.UUID, func(s *state.GPU) { s.Persistence = true }); err != nil {
		return err
	}
	return a.hw.SetPersistence(ctx, g.PCI, false)
}

// restorePersistence turns persistence mode on again where this agent, or one before it, turned it off.
func (a *Agent) restorePersistence(ctx context.Context, g devices.GPU) error {
	if !a.gpus[g.UUID].Persistence {
		return nil
	}
	if err := a.hw.SetPersistence(ctx, g.PCI, true); err != nil {
		return fmt.Errorf("turn persistence mode on again: %w", err)
	}
	return a.note(g.UUID, func(s *state.GPU) { s.Persistence = false })
}

// restoreAll does what a crash or a failure left undone.
func (a *Agent) restoreAll(ctx context.Context, n devices.Node) {
	for _, g := range n.GPUs {
		if g.Fault != nil || g.Released != "" {
			continue
		}
		if err := a.restorePersistence(ctx, g); err != nil {
			klog.FromContext(ctx).Error(err, "Persistence mode is still off; trying again", "gpu", g.Name())
		}
	}
}

// note changes what is kept of a GPU, on disk first.
func (a *Agent) note(uuid string, change func(*state.GPU)) error {
	g := a.gpus[uuid]
	g.UUID = uuid
	change(&g)
	if err := a.store.SaveGPU(g); err != nil {
		return fmt.Errorf("keep what was changed on GPU %s: %w", uuid, err)
	}
	a.gpus[uuid] = g
	return nil
}

// failedResets says, by UUID, why a reset did not help in this boot.
func (a *Agent) failedResets() map[string]string {
	why := map[string]string{}
	for uuid, g := range a.gpus {
		if g.ResetFailed != "" {
			why[uuid] = g.ResetFailed
		}
	}
	return why
}

// loadGPUs reads what an earlier process of this boot changed.
func (a *Agent) loadGPUs() error {
	gpus, err := a.store.GPUs()
	if err != nil {
		return err
	}
	for _, g := range gpus {
		a.gpus[g.UUID] = g
	}
	return nil
}

// FindClients looks who else works with the GPUs whose MIG mode is about to change, before anything is taken from them: the
// driver would refuse in the middle. It is asked of those alone, because the answer costs a walk through all processes.
func FindClients(ctx context.Context, hw ClientFinder, targets []Target) map[string][]string {
	found := map[string][]string{}
	for _, t := range targets {
		if !t.Plan.Runnable() || !t.Plan.ChangesMode() {
			continue
		}
		clients, err := hw.Clients(ctx, t.GPU.PCI)
		if err != nil {
			clients = []string{"unknown: " + err.Error()}
		}
		if len(clients) > 0 {
			found[t.GPU.PCI] = clients
		}
	}
	return found
}

// ClientFinder knows who else works with a GPU.
type ClientFinder interface {
	Clients(ctx context.Context, pci string) ([]string, error)
}

// failureReason tells a GPU that somebody works with from one that the driver fails on.
func failureReason(err error) Reason {
	if errors.Is(err, devices.ErrInUse) {
		return ReasonBlocked
	}
	return ReasonApplyFailed
}
