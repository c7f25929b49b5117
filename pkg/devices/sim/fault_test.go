// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuslice/pkg/devices"
)

func (f fixture) fail(fault Fault) (release func()) {
	f.t.Helper()
	release, err := f.machine.Fail(fault)
	f.ok(err)
	return release
}

func TestRefusedCallsDoNothing(t *testing.T) {
	f := open(t, machine(t, normalH100), Admin("test"))
	release := f.fail(Fault{Call: "CreateGI", Code: devices.ErrInUse})
	for range 2 {
		_, err := f.try(f.at(0), "3g.40gb", 4)
		f.wants(err, devices.ErrInUse)
	}
	f.dumps("gpu-0 h100-sxm5-80gb mig=on []\n")
	release()
	release()
	f.create(f.at(0), "3g.40gb", 4)
}

func TestDoneCallsAnswerAnError(t *testing.T) {
	f := open(t, machine(t, normalH100), Admin("test"))
	f.fail(Fault{Call: "CreateGI", Nth: 1, Form: Done})
	_, err := f.try(f.at(0), "3g.40gb", 4)
	f.wants(err, devices.ErrUnknown)
	f.dumps("gpu-0 h100-sxm5-80gb mig=on [3g.40gb@4{}]\n")
	// What the driver refuses is refused, whatever the fault says.
	f.fail(Fault{Call: "CreateGI", Form: Done})
	_, err = f.try(f.at(0), "3g.40gb", 4)
	f.wants(err, devices.ErrInsufficientResources)
}

func TestFaultsAreSelective(t *testing.T) {
	m := machine(t, "2xh100-sxm5-80gb")
	f, other := open(t, m, Admin("test")), open(t, m, Admin("other"))
	memory := func(f fixture, gpu int) error { _, err := f.Memory(f.at(gpu)); return err }

	release := f.fail(Fault{Call: "Memory", Nth: 2})
	f.ok(memory(f, 0))
	f.wants(memory(f, 0), devices.ErrUnknown)
	f.ok(memory(f, 0))
	release()

	release = f.fail(Fault{Call: "Memory", Client: "other"})
	f.ok(memory(f, 0))
	f.wants(memory(other, 0), devices.ErrUnknown)
	release()

	release = f.fail(Fault{Call: "Memory", GPUs: []int{1}})
	f.ok(memory(f, 0))
	f.wants(memory(f, 1), devices.ErrUnknown)
	release()

	release = f.fail(Fault{GPUs: []int{1}, Code: devices.ErrTimeout}) // everything about one GPU, the look-up too
	_, err := f.GPUByIndex(1)
	f.wants(err, devices.ErrTimeout)
	_, err = f.GPUByUUID(m.GPUs()[1].UUID)
	f.wants(err, devices.ErrTimeout)
	f.ok(memory(f, 0))
	release()
	f.ok(memory(f, 1))
}

// A call that never answers keeps nobody else waiting, and comes back when the fault, its client or the machine ends.
func TestHungCalls(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(m *Machine, release func())
	}{
		{"released", func(_ *Machine, release func()) { release() }},
		{"client gone", func(m *Machine, _ func()) { m.CloseClient("test") }},
		{"machine closed", func(m *Machine, _ func()) { m.Close() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := machine(t, "2xh100-sxm5-80gb")
				f, other := open(t, m, Admin("test")), open(t, m, Admin("other"))
				gpu := f.at(0)
				release := f.fail(Fault{Call: "SetMIGMode", GPUs: []int{0}, Form: Hung, Code: devices.ErrTimeout})
				answer := make(chan error, 1)
				go func() {
					_, err := f.SetMIGMode(gpu, true)
					answer <- err
				}()
				synctest.Wait()
				other.activate(other.at(1), true)
				f.ok(m.XID(1, 13, devices.NoInstance, devices.NoInstance)) // wakes every waiter, in vain
				synctest.Wait()
				select {
				case err := <-answer:
					t.Fatalf("the call came back: %v", err)
				default:
				}
				tc.end(m, release)
				f.wants(<-answer, devices.ErrTimeout)
				f.dumps("gpu-0 h100-sxm5-80gb mig=off\ngpu-1 h100-sxm5-80gb mig=on []\n")
			})
		})
	}
}

func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := machine(t, "1xl4")
		f := open(t, m, Admin("test"))
		f.ok(m.SetLatency("GPUByIndex", 10*time.Second))
		start := time.Now()
		gpu := f.at(0)
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("GPUByIndex took %v", took)
		}
		_, err := f.UUID(gpu)
		f.ok(err)
		other := open(t, m, Admin("other"))
		go func() { _, _ = f.GPUByIndex(0) }() // cut short by the end of the machine
		synctest.Wait()
		_, err = other.GPUCount()
		other.ok(err)
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("calls without latency took until %v", took)
		}
	})
}

func TestFaultsNameRealCalls(t *testing.T) {
	m := machine(t, "1xl4")
	_, err := m.Fail(Fault{Call: "CreateGi"})
	latency := m.SetLatency("nvmlInit", time.Second)
	for _, err := range []error{err, latency} {
		if err == nil || !strings.Contains(err.Error(), "CreateGI, DestroyCI") {
			t.Errorf("got %v, want the list of calls", err)
		}
	}
	if _, err := m.Fail(Fault{Nth: -1}); err == nil {
		t.Error("a negative count is accepted")
	}
}

func TestAccounting(t *testing.T) {
	m := machine(t, "1xa30-24gb,1xh100-sxm5-80gb")
	f := open(t, m, Admin("agent"))
	open(t, m, Admin("other"))
	var steps []string
	m.SetHooks(Hooks{
		BeforeEffect: func(call string) { steps = append(steps, "before "+call) },
		AfterEffect:  func(call string) { steps = append(steps, "after "+call) },
	})
	_, err := f.SetMIGMode(f.at(0), true)
	f.ok(err)
	f.activate(f.at(1), true)
	gi := f.create(f.at(1), "3g.40gb", 4)
	_, err = f.try(f.at(1), "4g.40gb", 0)
	f.ok(err)
	_, err = f.try(f.at(1), "7g.80gb", 0)
	f.wants(err, devices.ErrInsufficientResources)
	f.ok(f.DestroyGI(gi))
	f.wants(f.DestroyGI(gi), devices.ErrNotFound)

	want := []Attempt{
		{Call: "SetMIGMode", GPU: 0, Slot: "mig=on", Client: "agent", Done: true, Err: devices.ErrResetRequired},
		{Call: "SetMIGMode", GPU: 1, Slot: "mig=on", Client: "agent", Done: true},
		{Call: "CreateGI", GPU: 1, Slot: "3g.40gb@4", Client: "agent", Done: true},
		{Call: "CreateGI", GPU: 1, Slot: "4g.40gb@0", Client: "agent", Done: true},
		{Call: "CreateGI", GPU: 1, Slot: "7g.80gb@0", Client: "agent", Err: devices.ErrInsufficientResources},
		{Call: "DestroyGI", GPU: 1, Slot: "3g.40gb@4", Client: "agent", Done: true},
		{Call: "DestroyGI", GPU: devices.NoInstance, Client: "agent", Err: devices.ErrNotFound},
	}
	if diff := cmp.Diff(want, m.Log()); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if len(steps) != 12 { // seven tried, five done
		t.Errorf("hooks saw %v", steps)
	}
	calls := m.Calls("agent")
	if calls["CreateGI"] != 3 || calls["Init"] != 1 || calls["DestroyGI"] != 2 {
		t.Errorf("calls are %v", calls)
	}
	if m.Total("other") != 1 || m.Total("nobody") != 0 {
		t.Errorf("totals are %d and %d", m.Total("other"), m.Total("nobody"))
	}
}

// A crash test ends the caller inside a hook; nobody else may notice.
func TestCallerMayDieInAHook(t *testing.T) {
	m := machine(t, normalH100)
	f := open(t, m, Admin("test"))
	gpu := f.at(0)
	m.SetHooks(Hooks{AfterEffect: func(string) { panic("killed") }})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the hook was not called")
			}
		}()
		_, _ = f.CreateGI(gpu, 9, devices.Placement{Start: 4, Size: 4})
	}()
	f.dumps("gpu-0 h100-sxm5-80gb mig=on [3g.40gb@4{}]\n")
	if len(m.Log()) != 1 {
		t.Errorf("log is %+v", m.Log())
	}
}

func TestLogIsBounded(t *testing.T) {
	f := open(t, machine(t, "1xl4"), Admin("test"))
	gpu := f.at(0)
	for range maxAttempts + 1 {
		_, _ = f.SetMIGMode(gpu, true)
	}
	if n := len(f.machine.Log()); n > maxAttempts {
		t.Errorf("log has %d entries", n)
	}
}
