// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
	"gpuslice/pkg/health"
	"gpuslice/pkg/mig"
)

func machine(t *testing.T, spec string) *sim.Machine {
	t.Helper()
	m, err := sim.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func open(m *sim.Machine) *devices.Hardware {
	return devices.New(m.Open(sim.Admin("test")), devices.Options{CallLimit: time.Second})
}

func snapshot(t *testing.T, hw *devices.Hardware) devices.Node {
	t.Helper()
	n, err := hw.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func lines(n devices.Node) string {
	all := []string{}
	for _, g := range n.GPUs {
		all = append(all, g.String())
	}
	return strings.Join(all, "\n")
}

func fault(t *testing.T, m *sim.Machine, f sim.Fault) func() {
	t.Helper()
	release, err := m.Fail(f)
	if err != nil {
		t.Fatal(err)
	}
	return release
}

// What is read is what the machine says of itself, on every model.
func TestSnapshotIsTheMachine(t *testing.T) {
	for _, model := range sim.Models() {
		m := machine(t, "1x"+model)
		n := snapshot(t, open(m))
		if got, want := lines(n), strings.TrimSpace(m.Dump()); got != want {
			t.Errorf("read %s, machine is %s", got, want)
		}
	}
}

// P3: a lost GPU keeps what is known of it and costs the others nothing.
func TestLostGPUIsOneFault(t *testing.T) {
	m := machine(t, "3xh100-sxm5-80gb")
	hw := open(m)
	before := snapshot(t, hw)
	if err := m.Lose(1); err != nil {
		t.Fatal(err)
	}
	snapshot(t, hw)
	snapshot(t, hw)                               // it stays known, however often one looks
	if err := hw.Close(t.Context()); err != nil { // and in a session to which it never said its address
		t.Fatal(err)
	}
	after := snapshot(t, hw)
	if len(after.GPUs) != 3 || errors.Is(after.GPUs[1].Fault, devices.ErrGone) {
		t.Fatalf("a lost GPU is not gone: %s", lines(after))
	}
	for i, g := range after.GPUs {
		if (g.Fault != nil) != (i == 1) || g.UUID != before.GPUs[i].UUID {
			t.Errorf("%s", g)
		}
	}
	if !errors.Is(after.GPUs[1].Fault, devices.ErrLost) {
		t.Errorf("fault is %v", after.GPUs[1].Fault)
	}
}

// A GPU that was pulled out is gone, which is more than lost.
func TestRemovedGPUIsGone(t *testing.T) {
	m := machine(t, "3xl40s")
	hw := open(m)
	snapshot(t, hw)
	if err := m.RemoveGPU(1); err != nil {
		t.Fatal(err)
	}
	if err := hw.Close(t.Context()); err != nil { // a session goes on counting what it found at its start
		t.Fatal(err)
	}
	after := snapshot(t, hw)
	if len(after.GPUs) != 3 || !errors.Is(after.GPUs[1].Fault, devices.ErrGone) {
		t.Fatalf("%s", lines(after))
	}
	hw.Forget(after.GPUs[1].PCI)
	if n := snapshot(t, hw); len(n.GPUs) != 2 {
		t.Errorf("forgotten and still there: %s", lines(n))
	}
}

// P3, P11: a GPU whose calls never return is given up after the limit, not called again, and back when its call returns.
// The others are read in the same snapshot.
func TestHungGPUDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := machine(t, "2xl40s")
		hw := open(m)
		snapshot(t, hw)
		release := fault(t, m, sim.Fault{Call: "UUID", GPUs: []int{0}, Form: sim.Hung, Code: devices.ErrUnknown})
		started := time.Now()
		n := snapshot(t, hw)
		if took := time.Since(started); took != time.Second {
			t.Errorf("took %v, the limit is 1 s", took)
		}
		if !errors.Is(n.GPUs[0].Fault, devices.ErrHung) || n.GPUs[1].Fault != nil {
			t.Errorf("%s", lines(n))
		}
		calls := m.Calls("test")["UUID"]
		started = time.Now()
		snapshot(t, hw)
		if time.Since(started) != 0 || m.Calls("test")["UUID"] != calls+1 {
			t.Errorf("the suspect was called again: %d calls more in %v", m.Calls("test")["UUID"]-calls, time.Since(started))
		}
		release()
		synctest.Wait()
		if n := snapshot(t, hw); n.GPUs[0].Fault != nil {
			t.Errorf("not back: %s", lines(n))
		}
		m.Close()
	})
}

// P7: what a driver does not have is absent; nothing else suffers.
func TestUnsupportedIsAbsent(t *testing.T) {
	for _, call := range []string{"Memory", "Brand", "Architecture", "Name", "ComputeCapability", "DriverVersion", "CUDADriverVersion", "MIGMode"} {
		m := machine(t, "2xh100-sxm5-80gb")
		fault(t, m, sim.Fault{Call: call, Code: devices.ErrNotSupported})
		for _, g := range snapshot(t, open(m)).GPUs {
			if g.Fault != nil || g.UUID == "" {
				t.Errorf("%s not supported: %s", call, g)
			}
			if call == "Memory" && g.MemoryMiB != 0 {
				t.Errorf("memory is %d", g.MemoryMiB)
			}
		}
	}
}

func TestCreateIsOneStep(t *testing.T) {
	m := machine(t, "1xh100-sxm5-80gb")
	hw := open(m)
	g := snapshot(t, hw).GPUs[0]
	cut := hw.On(g.PCI)
	if err := cut.SetMode(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	slot, _, err := g.Geometry.ParseSlot("3g.40gb@4")
	if err != nil {
		t.Fatal(err)
	}
	release := fault(t, m, sim.Fault{Call: "CreateCI", Code: devices.ErrInsufficientResources, Form: sim.Refused})
	if err := cut.Create(t.Context(), slot); !errors.Is(err, devices.ErrInsufficientResources) {
		t.Errorf("Create = %v", err)
	}
	release()
	if got := strings.TrimSpace(m.Dump()); got != "gpu-0 h100-sxm5-80gb mig=on []" {
		t.Errorf("a compute instance that fails takes its GPU instance with it; machine is %s", got)
	}
	if err := cut.Create(t.Context(), slot); err != nil {
		t.Fatal(err)
	}
	inst := snapshot(t, hw).GPUs[0].MIG.Instances
	if len(inst) != 1 || !inst[0].Usable() || inst[0].Slot.String() != "3g.40gb@4" {
		t.Fatalf("read back %+v", inst)
	}
	other := inst[0]
	other.Slot.Start = 0 // the same id at another place is another instance
	if err := cut.Destroy(t.Context(), other); err != nil || !strings.Contains(m.Dump(), "3g.40gb@4") {
		t.Errorf("an instance of the same id was destroyed: %v, %s", err, m.Dump())
	}
	for range 2 {
		if err := cut.Destroy(t.Context(), inst[0]); err != nil {
			t.Errorf("destroy, also of what is gone: %v", err)
		}
	}
}

// On Ampere a mode that is accepted is not active: that is not success (P4).
func TestPendingModeIsNotSuccess(t *testing.T) {
	m := machine(t, "1xa100-sxm4-40gb")
	hw := open(m)
	g := snapshot(t, hw).GPUs[0]
	if err := hw.On(g.PCI).SetMode(t.Context(), true); !errors.Is(err, devices.ErrModePending) {
		t.Errorf("SetMode = %v, want it to say that the mode is pending", err)
	}
	after := snapshot(t, hw).GPUs[0]
	if after.MIG.Mode != (mig.Mode{Pending: true}) || after.String() != "gpu-0 a100-sxm4-40gb mig=off pending=on" {
		t.Errorf("read back %s", after)
	}
}

// M05: a GPU that nobody has heard of is cut by what its driver says. The names of an older driver, which says none, follow
// from the memory, as nvidia-smi's do.
func TestNamesWithoutTheDriversHelp(t *testing.T) {
	for _, model := range []string{"a100-sxm4-40gb", "h100-sxm5-80gb", "h200-sxm5-141gb", "a30-24gb", "rtx-pro-6000-blackwell-se-96gb"} {
		m := machine(t, "1x"+model)
		g := snapshot(t, open(m)).GPUs[0]
		named := snapshot(t, devices.New(nameless{m.Open(sim.Admin("old"))}, devices.Options{})).GPUs[0]
		if got, want := names(named.Geometry), names(g.Geometry); !slices.Equal(got, want) {
			t.Errorf("%s: derived %v, driver says %v", model, got, want)
		}
	}
}

// nameless is a driver without the calls that name profiles.
type nameless struct{ devices.Driver }

func (d nameless) GIProfile(gpu devices.GPUHandle, enum int) (devices.GIProfile, error) {
	p, err := d.Driver.GIProfile(gpu, enum)
	p.Name = ""
	return p, err
}

func names(g mig.Geometry) []string {
	all := []string{}
	for _, o := range g.Offers() {
		all = append(all, o.Profile.Name)
	}
	return all
}

// One odd row of a driver's table costs that row only.
func TestOddProfileIsLeftOut(t *testing.T) {
	m := machine(t, "1xh100-sxm5-80gb")
	whole := snapshot(t, open(m)).GPUs[0]
	g := snapshot(t, devices.New(odd{m.Open(sim.Admin("odd"))}, devices.Options{})).GPUs[0]
	if got, want := len(g.Geometry.Offers()), len(whole.Geometry.Offers())-1; g.Fault != nil || got != want {
		t.Errorf("%d profiles, want %d; %s", got, want, g)
	}
}

type odd struct{ devices.Driver }

func (d odd) GIProfile(gpu devices.GPUHandle, enum int) (devices.GIProfile, error) {
	p, err := d.Driver.GIProfile(gpu, enum)
	if enum == 0 {
		p.Slices = -3
	}
	return p, err
}

// The profiles of a GPU are asked for once in a session and a MIG mode, for which the driver promises that they stay; so a poll of a
// node where nothing happens is cheap.
func TestProfilesAreReadOnce(t *testing.T) {
	m := machine(t, "2xh100-sxm5-80gb")
	hw := open(m)
	asked := func() int { return m.Calls("test")["GIProfile"] }
	before := snapshot(t, hw)
	first := asked()
	if first == 0 {
		t.Fatal("nobody asked for profiles")
	}
	if after := snapshot(t, hw); lines(after) != lines(before) || after.GPUs[0].Geometry.IsZero() || asked() != first {
		t.Errorf("%d calls, then %d more; GPUs %s", first, asked()-first, lines(after))
	}
	if err := hw.On(before.GPUs[1].PCI).SetMode(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if snapshot(t, hw); asked() != first+first/2 {
		t.Errorf("%d calls after the mode of one of two GPUs, want %d", asked()-first, first/2)
	}
	for _, why := range []map[string]string{{devices.AllGPUs: "upgrade"}, {}} { // the session ends and another begins
		if err := hw.SetReleased(t.Context(), why); err != nil {
			t.Fatal(err)
		}
		snapshot(t, hw)
	}
	if got := asked() - first - first/2; got != first {
		t.Errorf("%d calls in a new session, want %d", got, first)
	}
}

func TestModelOf(t *testing.T) {
	for product, want := range map[string]string{
		"NVIDIA H100 80GB HBM3": "h100-sxm5-80gb", "NVIDIA RTX 6000 Ada Generation": "rtx-6000-ada-generation", "": "unknown", "NVIDIA ///": "unknown",
	} {
		if got := devices.ModelOf(product); got != want {
			t.Errorf("ModelOf(%q) = %q, want %q", product, got, want)
		}
	}
}

// An event comes with its place and with what the driver says right after it that the GPU needs.
func TestWatchNotifies(t *testing.T) {
	m := machine(t, "1xh100-sxm5-80gb")
	hw := open(m)
	pci := snapshot(t, hw).GPUs[0].PCI
	if err := m.Sign(0, sim.Sign{Field: devices.FieldRecoveryAction, Value: 1}); err != nil {
		t.Fatal(err)
	}
	told := make(chan devices.Report, 64)
	ended := make(chan error, 1)
	ctx := t.Context()
	go func() { ended <- hw.Watch(ctx, func(r devices.Report) { told <- r }) }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		if err := m.XID(0, 79, devices.NoInstance, devices.NoInstance); err != nil {
			t.Fatal(err)
		}
		select {
		case r := <-told:
			want := devices.Report{PCI: pci, Event: devices.EventXID, XID: 79, GI: devices.NoInstance, CI: devices.NoInstance, Action: health.ActionReset}
			if r != want {
				t.Errorf("told %+v, want %+v", r, want)
			}
			return
		case <-tick.C:
		}
	}
	t.Error("no notification in 30 s")
}
