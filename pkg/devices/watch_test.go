// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
	"gpuslice/pkg/health"
)

// watched is a node whose events are taken down.
type watched struct {
	t       *testing.T
	machine *sim.Machine
	hw      *devices.Hardware

	mu      sync.Mutex
	reports []devices.Report
}

// watch watches a machine in a bubble until the test function ends.
func watch(t *testing.T, file string, test func(t *testing.T, w *watched)) {
	synctest.Test(t, func(t *testing.T) {
		m, err := sim.ParseYAML([]byte(file))
		if err != nil {
			t.Fatal(err)
		}
		host := m.Host()
		w := &watched{t: t, machine: m, hw: devices.New(m.Open(sim.Admin("agent")), devices.Options{Bound: host.Bound, Load: host.Load})}
		snapshot(t, w.hw)
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() {
			_ = w.hw.Watch(ctx, func(r devices.Report) { // it ends with ctx
				w.mu.Lock()
				defer w.mu.Unlock()
				w.reports = append(w.reports, r)
			})
		})
		synctest.Wait()
		test(t, w)
		cancel()
		m.Close()
		watching.Wait()
		synctest.Wait()
	})
}

// xids prints and forgets what was told: the GPU's bus number, XID, instance and recovery action.
func (w *watched) xids() string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	text := ""
	for _, r := range w.reports {
		if r.Event == devices.EventXID {
			text += fmt.Sprintf("%s:%d/%d/%s ", r.PCI[5:7], r.XID, r.GI, r.Action)
		}
	}
	w.reports = nil
	return text
}

func (w *watched) polled() []bool {
	polled := []bool{}
	for _, g := range snapshot(w.t, w.hw).GPUs {
		polled = append(polled, g.Polled)
		if g.Fault != nil {
			w.t.Errorf("%s: %v", g.Name(), g.Fault)
		}
	}
	return polled
}

// H08: a GPU without events is no worse for it; it is read instead, and said to be.
func TestWithoutEvents(t *testing.T) {
	watch(t, "gpus:\n- {model: l40s}\n- {model: l40s, events: false}\n", func(t *testing.T, w *watched) {
		if got := w.polled(); !slices.Equal(got, []bool{false, true}) {
			t.Errorf("polled %v", got)
		}
		if err := w.machine.Sign(1, sim.Sign{Field: devices.FieldRecoveryAction, Value: 1}); err != nil {
			t.Fatal(err)
		}
		if got := snapshot(t, w.hw).GPUs[1].Signs.Action; got != health.ActionReset {
			t.Errorf("it says %s", got)
		}
	})
}

// H07: while the driver makes no event sets every GPU is polled; the attempts come further and further apart, and events are told as
// soon as one works.
func TestEventsFailAtFirst(t *testing.T) {
	watch(t, "gpus: [{model: l40s, count: 2}]\nfaults: [{call: NewEventSet, nth: 0}]\n", func(t *testing.T, w *watched) {
		<-time.After(2 * time.Minute)
		if got := w.polled(); !slices.Equal(got, []bool{true, true}) {
			t.Errorf("polled %v", got)
		}
		if n := w.machine.Calls("agent")["NewEventSet"]; n < 5 || n > 10 {
			t.Errorf("%d attempts in two minutes", n)
		}
	})
	watch(t, "gpus: [{model: l40s, count: 2}]\nfaults: [{call: NewEventSet, nth: 1}, {call: NewEventSet, nth: 2}, {call: NewEventSet, nth: 3}]\n", func(t *testing.T, w *watched) {
		<-time.After(10 * time.Second)
		if got := w.polled(); !slices.Equal(got, []bool{false, false}) {
			t.Errorf("polled %v", got)
		}
		if err := w.machine.XID(1, 31, devices.NoInstance, devices.NoInstance); err != nil {
			t.Fatal(err)
		}
		if got, want := w.xids(), "18:31/-1/none "; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

// An event set that fails is made anew; a GPU that is lost takes no events away from the others, and does not make a loop.
func TestWaitingFails(t *testing.T) {
	watch(t, "gpus: [{model: h100-sxm5-80gb, count: 3}]\n", func(t *testing.T, w *watched) {
		release, err := w.machine.Fail(sim.Fault{Call: "Wait", Nth: 1, Code: devices.ErrUnknown})
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Second)
		release()
		if err := w.machine.Lose(0); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Second)
		before := w.machine.Calls("agent")["NewEventSet"]
		for gpu := 1; gpu < 3; gpu++ {
			if err := w.machine.Break(gpu, 95, 3, 0, 1); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := w.xids(), "18:95/3/reset 20:95/3/reset "; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
		<-time.After(time.Minute)
		if n := w.machine.Calls("agent")["NewEventSet"] - before; n > 3 {
			t.Errorf("%d event sets in a minute with a lost GPU", n)
		}
	})
}

// After a session was closed for one GPU the events of the others are told again at once.
func TestEventsAfterALetGo(t *testing.T) {
	watch(t, "gpus: [{model: l40s, count: 2}]\n", func(t *testing.T, w *watched) {
		pci := snapshot(t, w.hw).GPUs[0].PCI
		for range 5 {
			if err := w.hw.SetReleased(t.Context(), map[string]string{pci: "test"}); err != nil {
				t.Fatal(err)
			}
			snapshot(t, w.hw)
			synctest.Wait()
			if err := w.machine.XID(1, 31, devices.NoInstance, devices.NoInstance); err != nil {
				t.Fatal(err)
			}
			if got, want := w.xids(), "18:31/-1/none "; got != want {
				t.Errorf("told %q, want %q", got, want)
			}
			if err := w.hw.SetReleased(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
	})
}
