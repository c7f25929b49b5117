// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

// who prints each GPU by the numbers of the machine: "gpu 0 is index 0 minor 0", with what is wrong with it.
func who(n devices.Node, m *sim.Machine, uuids map[string]int) string {
	all := []string{}
	for _, g := range n.GPUs {
		line := fmt.Sprintf("gpu %d is index %d minor %d", uuids[g.UUID], g.Index, g.Minor)
		switch {
		case errors.Is(g.Fault, devices.ErrGone):
			line = fmt.Sprintf("gpu %d is gone", uuids[g.UUID])
		case g.Fault != nil:
			line = fmt.Sprintf("gpu %d: %v", uuids[g.UUID], g.Fault)
		}
		all = append(all, line)
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// P3: GPUs that come and go while we run are seen at the next look, whatever index and minor number they have then; the others
// are read as before. A session of the driver goes on with the GPUs that it found, so another is begun, and only then.
func TestGPUsComeAndGo(t *testing.T) {
	m := machine(t, "3xl40s")
	uuids := map[string]int{}
	for _, g := range m.GPUs() {
		uuids[g.UUID] = g.Number
	}
	hw := onHost(m)
	look := func(want string) {
		t.Helper()
		if got := who(snapshot(t, hw), m, uuids); got != want {
			t.Errorf("read %s\nwant %s", got, want)
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	all := "gpu 0 is index 0 minor 0; gpu 1 is index 1 minor 1; gpu 2 is index 2 minor 2"
	look(all)
	look(all)
	if n := m.Calls("test")["Init"]; n != 1 {
		t.Errorf("%d sessions while nothing happened", n)
	}
	do(m.RemoveGPU(1))
	look("gpu 0 is index 0 minor 0; gpu 1 is gone; gpu 2 is index 1 minor 2")
	do(m.ReturnGPU(1, ""))
	look(all)
	do(m.RemoveGPU(0))
	look("gpu 0 is gone; gpu 1 is index 0 minor 1; gpu 2 is index 1 minor 2")
	do(m.ReturnGPU(0, "0000:F8:00.0")) // into another slot: it is still that GPU, and it is there once
	look("gpu 0 is index 2 minor 0; gpu 1 is index 0 minor 1; gpu 2 is index 1 minor 2")
	do(m.SetMinors(map[int]int{1: 7, 2: 1}))
	look("gpu 0 is index 2 minor 0; gpu 1 is index 0 minor 7; gpu 2 is index 1 minor 1")
	if n := m.Calls("test")["Init"]; n != 5 {
		t.Errorf("%d sessions, want one more for each time the kernel had others", n)
	}
}

// P11: a hung call keeps a session from being closed; the GPUs that answer are read in it all the same, without a wait.
func TestPlugWhileACallHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := machine(t, "2xl40s")
		hw := onHost(m)
		snapshot(t, hw)
		release := fault(t, m, sim.Fault{Call: "UUID", GPUs: []int{0}, Form: sim.Hung, Code: devices.ErrUnknown})
		snapshot(t, hw)
		if _, err := m.AddGPU("l40s", ""); err != nil {
			t.Fatal(err)
		}
		started := time.Now()
		if n := snapshot(t, hw); len(n.GPUs) != 2 || n.GPUs[1].Fault != nil || time.Since(started) > 0 {
			t.Errorf("%s after %v", lines(n), time.Since(started))
		}
		release()
		synctest.Wait()
		if n := snapshot(t, hw); len(n.GPUs) != 3 {
			t.Errorf("%s", lines(n))
		}
		m.Close()
	})
}

// P11: a dead session whose end hangs keeps nobody waiting for longer than the limit, and the driver is opened again when it has ended.
func TestDeadSessionThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := machine(t, "1xl40s")
		hw := onHost(m)
		snapshot(t, hw)
		end := fault(t, m, sim.Fault{Call: "Shutdown", Form: sim.Hung})
		reload := fault(t, m, sim.Fault{Call: "GPUCount", Code: devices.ErrUninitialized})
		started := time.Now()
		_, err := hw.Snapshot(t.Context())
		if took := time.Since(started); !errors.Is(err, devices.ErrUninitialized) || took > time.Second {
			t.Errorf("the look that finds the session dead: %v after %v", err, took)
		}
		reload()
		started = time.Now()
		if _, err := hw.Snapshot(t.Context()); !errors.Is(err, devices.ErrHung) || time.Since(started) > 0 {
			t.Errorf("the next look: %v after %v", err, time.Since(started))
		}
		end()
		synctest.Wait()
		if n := snapshot(t, hw); len(n.GPUs) != 1 || n.GPUs[0].Fault != nil {
			t.Errorf("after the end: %s", lines(n))
		}
		m.Close()
	})
}

// K02, P11: a driver that takes longer to open than we wait is not asked twice; its answer counts when it comes.
func TestDriverThatOpensLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := machine(t, "1xl40s")
		if err := m.SetLatency("Init", 40*time.Second); err != nil {
			t.Fatal(err)
		}
		hw := devices.New(m.Open(sim.Admin("test")), devices.Options{CallLimit: 30 * time.Second})
		started := time.Now()
		for _, wants := range []struct{ at, until time.Duration }{{0, 30 * time.Second}, {35 * time.Second, 35 * time.Second}} {
			<-time.After(wants.at - time.Since(started))
			if _, err := hw.Snapshot(t.Context()); !errors.Is(err, devices.ErrHung) || time.Since(started) != wants.until {
				t.Errorf("at %v: %v", time.Since(started), err)
			}
		}
		<-time.After(5*time.Second + time.Millisecond)
		if n := snapshot(t, hw); len(n.GPUs) != 1 || n.GPUs[0].Fault != nil || time.Since(started) > 41*time.Second {
			t.Errorf("after %v: %s", time.Since(started), lines(n))
		}
		if n := m.Calls("test")["Init"]; n != 1 {
			t.Errorf("opened %d times", n)
		}
		m.Close()
	})
}

// A driver that answers late, when its GPUs have been released meanwhile, is let go of.
func TestDriverThatOpensLateIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := machine(t, "1xl40s")
		if err := m.SetLatency("Init", 40*time.Second); err != nil {
			t.Fatal(err)
		}
		hw := open(m)
		if _, err := hw.Snapshot(t.Context()); !errors.Is(err, devices.ErrHung) {
			t.Fatal(err)
		}
		if err := hw.SetReleased(t.Context(), map[string]string{devices.AllGPUs: "upgrade"}); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		snapshot(t, hw)
		if err := m.UnloadDriver(); err != nil {
			t.Errorf("released, and the driver cannot be unloaded: %v", err)
		}
		m.Close()
	})
}

// opaque is a driver whose MIG devices have names of a form that nobody has seen, and of which a look at one fails when told to.
type opaque struct {
	devices.Driver
	failing *string
	t       *testing.T
}

func (d opaque) UUID(h devices.GPUHandle) (string, error) {
	uuid, err := d.Driver.UUID(h)
	if rest, isMIG := strings.CutPrefix(uuid, "MIG-"); isMIG {
		if *d.failing == "UUID" {
			return "", devices.ErrUnknown
		}
		return "MIG-30d0:" + strings.ToUpper(rest[:4]) + "/7", err
	}
	return uuid, err
}

func (d opaque) MIGDevice(h devices.GPUHandle, index int) (devices.GPUHandle, error) {
	if *d.failing == "MIGDevice" {
		return 0, devices.ErrUnknown
	}
	return d.Driver.MIGDevice(h, index)
}

func (d opaque) GPUByUUID(uuid string) (devices.GPUHandle, error) {
	d.t.Errorf("%s was looked up by its name", uuid)
	return 0, devices.ErrNotFound
}

// H10: the name of a MIG device is taken as it is, and which instance it is follows from the enumeration. A look that fails tells
// the driver's own answer, and the next one finds everything again.
func TestNamesOfMIGDevicesAreOpaque(t *testing.T) {
	m := machineFile(t, "gpus: [{model: h100-sxm5-80gb, instances: [3g.40gb@4, 1g.10gb@0]}, {model: l40s}]\n")
	failing := ""
	hw := devices.New(opaque{m.Open(sim.Admin("test")), &failing, t}, devices.Options{})
	before := snapshot(t, hw)
	for _, inst := range before.GPUs[0].MIG.Instances {
		truth := slices.IndexFunc(m.GPUs()[0].Instances, func(i sim.Instance) bool { return i.GI == inst.GI && i.Slot == inst.Slot.String() })
		if !strings.HasPrefix(inst.UUID, "MIG-30d0:") || truth < 0 {
			t.Errorf("instance %+v is none of %+v", inst, m.GPUs()[0].Instances)
		}
	}
	for _, failing = range []string{"MIGDevice", "UUID"} {
		n := snapshot(t, hw)
		if !errors.Is(n.GPUs[0].Fault, devices.ErrUnknown) || !strings.Contains(n.GPUs[0].Fault.Error(), "MIG device 0: driver answered UNKNOWN") || n.GPUs[1].Fault != nil {
			t.Errorf("%s fails: %s", failing, lines(n))
		}
		if len(n.GPUs[0].MIG.Instances) != 2 {
			t.Errorf("%s fails: the instances are forgotten: %s", failing, lines(n))
		}
		failing = ""
		if got := lines(snapshot(t, hw)); got != lines(before) {
			t.Errorf("afterwards %s, want %s", got, lines(before))
		}
	}
}
