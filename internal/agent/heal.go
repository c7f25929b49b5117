// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"gpuslice/internal/state"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/health"
	"gpuslice/pkg/mig"
)

// hands says whether this process keeps its hands off the GPUs that are sick and idle. It is the same for all of them, because GPUs
// that are new are found only while none is let go of.
type hands struct {
	off   bool
	since time.Time
}

// letGoWord is why such a GPU is released.
const letGoWord = "sick and idle, so that it can be reset"

// letGo says which sick GPUs nobody uses: by PCI address, as of the last pass. Every now and then it is none, so that they are
// looked at; then they are to be let go of again at once.
func (l *ledger) letGo(peek time.Duration, now time.Time) (why map[string]string, looking bool) {
	looking = l.hands.off && len(l.idle) > 0 && now.Sub(l.hands.since) >= peek
	switch {
	case len(l.idle) == 0 || looking:
		l.hands = hands{}
		return nil, looking
	case !l.hands.off:
		l.hands = hands{true, now}
	}
	why = map[string]string{}
	for _, g := range l.idle {
		why[g.PCI] = letGoWord
	}
	return why, false
}

// settled is how long a claim that was allocated before a device was tainted may take to be prepared.
const settled = 2 * time.Minute

// noteIdle finds the GPUs that are to be let go of from the next pass on. The view that was published gives nothing out on them, and
// nothing was given out between the reading of their holders and then, or it would not have been published.
func (a *Agent) noteIdle(o observation, v View, published bool, now time.Time) {
	a.ledger.idle = nil
	hangs := slices.ContainsFunc(v.Targets, func(t Target) bool { return errors.Is(t.GPU.Fault, devices.ErrHung) })
	if !published || hangs { // while a call hangs the driver cannot be let go of, and trying takes its time
		return
	}
	for _, t := range v.Targets {
		if t.isSick() && v.givesNothingOf(t.GPU, now) && !t.mayReset(now) && len(o.usage.of(t.GPU).Any()) == 0 {
			a.ledger.idle = append(a.ledger.idle, t.GPU)
		}
	}
}

// findSick adds what is wrong with the health of the GPU, and what would help.
func (t *Target) findSick(failure string) {
	for _, f := range t.Health.Faults {
		help := ""
		switch {
		case f.Class != health.Reset:
		case failure != "":
			help = "; the agent could not reset it and tries again: " + failure
		case t.Policy.Reset == "when-idle" && !t.Paused:
			help = "; the agent resets it once nobody uses it"
		default: // the same while the agent looks at it, or every look would be news
			help = fmt.Sprintf("; nvidia-smi -r -i %s works once nobody uses it", t.GPU.PCI)
		}
		t.problem(ReasonGPUUnhealthy, "%s%s", f, help)
	}
}

// isSick says that something of the GPU needs a reset or more.
func (t Target) isSick() bool { return len(t.Health.Faults) > 0 }

// IsUnhealthy says that the GPU, as a whole or in part, cannot be given out for its health.
func (t Target) IsUnhealthy() bool { return t.isSick() || t.GPU.Fault != nil && !t.AccessLost }

// mayReset says that this agent is about to reset the GPU itself.
func (t Target) mayReset(now time.Time) bool {
	return t.Policy.Reset == "when-idle" && !t.Paused && t.Health.WantsReset(now) && t.GPU.Fault == nil
}

// givesNothingOf says that the view gives nothing new out of a GPU.
func (v *View) givesNothingOf(g devices.GPU, now time.Time) bool {
	return !slices.ContainsFunc(v.Devices, func(d Device) bool {
		tainted := d.API == DRA && d.Pending != "" && now.Sub(d.Cause.Last) >= settled
		return d.GPU.UUID == g.UUID && d.Fault == "" && !tainted && !d.Held && d.API != ""
	})
}

// resetSick resets the GPUs that are sick and idle where the config lets it: what they offer leaves the view first, then their
// holders are read again.
func (a *Agent) resetSick(ctx context.Context, o observation, targets []Target) (observation, []Target, error) {
	due := a.dueForReset(ctx, o.usage, targets)
	if view, _ := a.View(); len(due) == 0 || view == nil { // the first list does not wait for a reset
		return o, targets, nil
	}
	if err := a.withdraw(o, targets, due); err != nil {
		return o, targets, err
	}
	o, targets = a.look(ctx)
	for _, t := range a.dueForReset(ctx, o.usage, targets) {
		if slices.ContainsFunc(due, func(x Target) bool { return x.GPU.UUID == t.GPU.UUID }) {
			a.resetOne(ctx, t.GPU)
		}
	}
	o, targets = a.look(ctx)
	return o, targets, nil
}

// dueForReset gives each GPU that may be reset now the plan to do so.
func (a *Agent) dueForReset(ctx context.Context, u Usage, targets []Target) []Target {
	due := []Target{}
	for _, t := range targets {
		if !t.mayReset(time.Now()) || t.GPU.Released != "" || len(u.of(t.GPU).Any()) > 0 {
			continue
		}
		clients, err := a.hw.Clients(ctx, t.GPU.PCI)
		if err != nil || len(clients) > 0 {
			klog.FromContext(ctx).V(2).Info("A sick GPU is not reset yet", "gpu", t.GPU.Name(), "holders", clients, "cause", fmt.Sprint(err))
			continue
		}
		t.Plan = mig.Plan{GPU: t.GPU.Name(), Steps: []mig.Step{mig.Reset{}}}
		due = append(due, t)
	}
	return due
}

// resetOne resets a GPU. That it was tried is on disk first, so that a crash does not make the agent try without a pause.
func (a *Agent) resetOne(ctx context.Context, g devices.GPU) {
	logger := klog.FromContext(ctx).WithValues("gpu", g.Name())
	p := a.ledger.patients[g.UUID]
	p.State = p.State.ResetTried(time.Now(), false)
	a.ledger.patients[g.UUID] = p
	if err := a.ledger.write(a.store, p.Health); err != nil {
		logger.Error(err, "A sick GPU is not reset, because that could not be noted")
		return
	}
	logger.Info("Resetting a sick GPU that nobody uses", "attempt", p.State.Resets.N)
	if err := a.resetHeld(ctx, g); err != nil {
		logger.Error(err, "A sick GPU was not reset")
		p.failure = err.Error()
	} else {
		p.State, _ = p.State.Heal(health.ResetSeen)
		p.reset, p.failure = true, ""
	}
	a.ledger.patients[g.UUID] = p
}

func (a *Agent) resetHeld(ctx context.Context, g devices.GPU) (err error) {
	if err := a.pausePersistence(ctx, g); err != nil {
		return err
	}
	defer func() {
		if restore := a.restorePersistence(ctx, g); restore != nil {
			klog.FromContext(ctx).Error(restore, "Persistence mode is still off; trying again", "gpu", g.Name())
		}
	}()
	return a.hw.Reset(ctx, g.PCI)
}

// write keeps the health of a GPU now.
func (l *ledger) write(store Store, h state.Health) error {
	if err := store.SaveHealth(h); err != nil {
		return fmt.Errorf("keep health: %w", err)
	}
	l.kept[h.UUID], l.saved[h.UUID] = h, time.Now()
	return nil
}
