// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"gpuslice/internal/state"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/health"
)

// ledger is the health of every GPU, by UUID. All but the queue is guarded as hardware is, by converging.
type ledger struct {
	patients map[string]patient
	kept     map[string]state.Health // as it is on disk
	saved    map[string]time.Time
	idle     []devices.GPU // sick, and nobody uses them
	hands    hands
	journal  journal
	// unreadable says, by UUID, why the record of a GPU could not be read at the start.
	unreadable map[string]string

	mu     sync.Mutex
	queue  []reports // in the order of their first
	missed uint64    // reports beyond maxQueue
}

// maxQueue bounds what is kept apart until the next pass: far more than there are XIDs times instances.
const maxQueue = 4096

// reports is one and the same report, so many times: XIDs come in storms.
type reports struct {
	devices.Report
	times uint64
}

// countsEvery is how often counts alone are written: they only ever grow, and a storm must not wear a disk out.
const countsEvery = time.Minute

func (a *Agent) loadHealth() error {
	all, bad, err := a.store.Healths()
	if err != nil {
		return err
	}
	a.ledger = ledger{patients: map[string]patient{}, kept: map[string]state.Health{}, saved: map[string]time.Time{}, unreadable: map[string]string{}}
	for _, h := range all {
		a.ledger.patients[h.UUID], a.ledger.kept[h.UUID] = patient{Health: h}, h
	}
	for _, b := range bad { // it had something, and restarts heal nothing
		o := health.Observation{Source: health.Reported, Reason: noRecord}
		h := state.Health{UUID: b.UID, BootID: a.store.BootID()}
		h.State, _ = h.State.Observe(health.Policy{}, o, time.Now())
		a.ledger.patients[b.UID] = patient{Health: h}
		a.ledger.unreadable[b.UID] = b.Error()
	}
	return nil
}

// noRecord is what is wrong with a GPU of which the record could not be read.
const noRecord = "the record of its health could not be read"

// lacking names the records that could not be read, as long as that is held against their GPUs.
func (l *ledger) lacking() []Problem {
	problems := []Problem{}
	for uuid, why := range l.unreadable {
		if slices.ContainsFunc(l.patients[uuid].State.Faults, func(f health.Fault) bool { return f.Reason == noRecord }) {
			problems = append(problems, Problem{Reason: ReasonStateUnreadable, Message: why})
		}
	}
	return problems
}

// Report takes an event of a GPU in; the next pass follows at once.
func (a *Agent) Report(r devices.Report) {
	if r.PCI != "" {
		a.ledger.push(r)
	}
	a.Kick()
}

func (l *ledger) push(r devices.Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.IndexFunc(l.queue, func(x reports) bool { return x.Report == r }); i >= 0 {
		l.queue[i].times++
		return
	}
	if len(l.queue) >= maxQueue {
		l.missed++
		return
	}
	l.queue = append(l.queue, reports{r, 1})
}

// take returns what was told since the last time, by PCI address.
func (l *ledger) take(ctx context.Context) map[string][]reports {
	l.mu.Lock()
	defer l.mu.Unlock()
	told := map[string][]reports{}
	for _, r := range l.queue {
		told[r.PCI] = append(told[r.PCI], r)
	}
	if l.missed > 0 {
		klog.FromContext(ctx).Error(nil, "Reports of GPUs were of more kinds than are kept apart", "missed", l.missed)
	}
	l.queue, l.missed = nil, 0
	return told
}

// diagnose judges every GPU by the reports from before the look and by what the look read, and keeps what it finds before anybody
// acts on it.
func (a *Agent) diagnose(ctx context.Context, o *observation, told map[string][]reports) {
	policy, err := health.ParsePolicy(o.input.config.xids())
	if err != nil { // the config's own checks have refused it before
		klog.FromContext(ctx).Error(err, "Overrides of XIDs ignored")
	}
	o.health, o.access = map[string]health.State{}, a.ledger.accessLost(o.node.GPUs)
	people, problems := readAnnotations(o.input.annotations, o.node.GPUs)
	o.problems = append(o.problems, problems...)
	if o.access {
		o.problems = append(o.problems, Problem{
			Reason: ReasonAccessLost, Message: "all GPUs that answered are lost at once, which is taken for this process's way to them: they are offered as before",
		})
	}
	for _, g := range o.node.GPUs {
		if g.UUID == "" || g.Unsupported != nil {
			continue
		}
		before := a.ledger.patients[g.UUID]
		before.UUID = g.UUID
		after, changes := before.diagnose(policy, visit{
			gpu: g, boot: a.store.BootID(), load: o.node.Load, reports: told[g.PCI], access: o.access,
			reported: people.reported[g.UUID], cleared: people.cleared[g.UUID],
		}, time.Now())
		after.doubted = errors.Is(g.Fault, devices.ErrLost) && !errors.Is(g.Fault, devices.ErrGone) && !g.Lost
		after.silent = o.silence(g, after, before.silent)
		if after.doubted && !before.doubted {
			a.Kick() // another session has to say so before it is believed
		}
		a.ledger.patients[g.UUID], o.health[g.UUID] = after, after.State
		if err := a.ledger.keep(a.store, after.Health, time.Now()); err != nil {
			o.problems = append(o.problems, Problem{GPU: g.Name(), Reason: ReasonStateNotKept, Message: err.Error()})
		}
		a.ledger.journal.enter(g, before.condition(), after.condition(), changes, holdersOn(o.usage, g), time.Now())
	}
	o.problems = append(o.problems, a.ledger.lacking()...)
}

// silence is why a GPU does not answer. While the driver is away, or the GPU is let go of, that is no news of it, and a GPU that is
// lost is not told of before it is believed.
func (o *observation) silence(g devices.GPU, p patient, before string) string {
	switch {
	case o.noNode != nil, g.Released != "":
		return before
	case g.Fault == nil || o.access || p.doubted:
		return ""
	default:
		return g.Fault.Error()
	}
}

// keep writes what changed: faults at once, counts every now and then.
func (l *ledger) keep(store Store, h state.Health, now time.Time) error {
	was := l.kept[h.UUID]
	switch {
	case reflect.DeepEqual(h, was), h.IsEmpty() && was.UUID == "":
		return nil
	case reflect.DeepEqual(uncounted(h), uncounted(was)) && now.Sub(l.saved[h.UUID]) < countsEvery:
		return nil
	}
	return l.write(store, h)
}

// uncounted leaves out how often and when something was reported last.
func uncounted(h state.Health) state.Health {
	h.State.Counts, h.State.Others = nil, 0
	h.State.Faults = slices.Clone(h.State.Faults)
	for i := range h.State.Faults {
		h.State.Faults[i].Count, h.State.Faults[i].Last = 0, time.Time{}
	}
	return h
}

// failures says, by UUID, why the agent's last reset of a GPU failed.
func (l *ledger) failures() map[string]string {
	why := map[string]string{}
	for uuid, p := range l.patients {
		if p.failure != "" {
			why[uuid] = p.failure
		}
	}
	return why
}

// accessLost says that several GPUs are lost at once, and with them every one that was not known to be off the bus before.
func (l *ledger) accessLost(gpus []devices.GPU) bool {
	asked := slices.DeleteFunc(slices.Clone(gpus), func(g devices.GPU) bool {
		known := slices.ContainsFunc(l.patients[g.UUID].State.Faults, func(f health.Fault) bool { return f.Source == health.Unreachable })
		return known || g.Released != "" || g.Unsupported != nil || errors.Is(g.Fault, devices.ErrGone)
	})
	return len(asked) > 1 && !slices.ContainsFunc(asked, func(g devices.GPU) bool { return !errors.Is(g.Fault, devices.ErrLost) })
}

// holdersOn names the pods and claims that hold something of a GPU, by the instance they hold; NoInstance is all of it.
func holdersOn(u Usage, g devices.GPU) map[int][]string {
	used, held := u.of(g), map[int][]string{}
	held[devices.NoInstance] = podsOf(used.GPU)
	for gi, by := range used.Instances {
		held[gi] = podsOf(by)
	}
	return held
}

// podsOf picks the holders that are pods, as "namespace/pod", and claims, as "claim namespace/name".
func podsOf(holders []string) []string {
	pods := []string{}
	for _, h := range holders {
		part := strings.Split(h, "/")
		switch {
		case len(part) == 2 && strings.HasPrefix(h, ClaimPrefix):
			pods = append(pods, h)
		case len(part) == 3 && !strings.Contains(h, " "):
			pods = append(pods, part[0]+"/"+part[1])
		}
	}
	slices.Sort(pods)
	return slices.Compact(pods)
}

// xids are the overrides of the config.
func (c Config) xids() map[string]string {
	if c.Health == nil {
		return nil
	}
	return c.Health.XIDs
}
