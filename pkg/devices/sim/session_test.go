// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"errors"
	"testing"

	"gpuslice/pkg/devices"
)

func TestHandlesBelongToTheirSession(t *testing.T) {
	m := machine(t, "2xh100-sxm5-80gb")
	a, b := open(t, m, Admin("a")), open(t, m, Admin("b"))
	gpu := a.at(0)
	if again := a.at(0); again != gpu {
		t.Errorf("the same GPU has handles %d and %d", gpu, again)
	}
	_, err := b.UUID(gpu)
	b.wants(err, devices.ErrNotFound)
	_, err = a.UUID(devices.GPUHandle(1 << 40))
	a.wants(err, devices.ErrInvalidArgument)
	_, err = a.UUID(0)
	a.wants(err, devices.ErrInvalidArgument)
	_, err = a.GIInfo(devices.GIHandle(gpu))
	a.wants(err, devices.ErrInvalidArgument)

	a.ok(a.Shutdown())
	_, err = a.UUID(gpu)
	a.wants(err, devices.ErrUninitialized)
	a.wants(a.Shutdown(), devices.ErrUninitialized)
	a.ok(a.Init())
	_, err = a.UUID(gpu)
	a.wants(err, devices.ErrNotFound)
}

func TestInitIsIdempotent(t *testing.T) {
	f := open(t, machine(t, "1xl4"), Admin("test"))
	gpu := f.at(0)
	f.ok(f.Init())
	_, err := f.UUID(gpu)
	f.ok(err)
}

// A session holds a GPU from its first handle, however it was taken, until it ends in whatever way.
func TestHoldingAGPU(t *testing.T) {
	take := map[string]func(f fixture) error{
		"by index":  func(f fixture) error { _, err := f.GPUByIndex(0); return err },
		"by bus id": func(f fixture) error { _, err := f.GPUByBusID(f.machine.GPUs()[0].BusID); return err },
		"by UUID":   func(f fixture) error { _, err := f.GPUByUUID(f.machine.GPUs()[0].UUID); return err },
		"by the UUID of a MIG device": func(f fixture) error {
			_, err := f.GPUByUUID(f.machine.GPUs()[0].Instances[0].UUID)
			return err
		},
	}
	let := map[string]func(f fixture) error{
		"Shutdown":    func(f fixture) error { return f.Shutdown() },
		"killed":      func(f fixture) error { f.machine.CloseClient("other"); return nil },
		"end of node": func(f fixture) error { f.machine.Reboot(); return nil },
	}
	for how, take := range take {
		for end, let := range let {
			t.Run(how+" until "+end, func(t *testing.T) {
				m := machine(t, "gpus:\n- {model: a30-24gb, instances: [1g.6gb@0]}\n")
				other := open(t, m, Admin("other"))
				other.ok(m.Reset(0)) // an open session alone holds nothing
				m = machine(t, "gpus:\n- {model: a30-24gb, instances: [1g.6gb@0]}\n")
				other = open(t, m, Admin("other"))
				other.ok(take(other))
				other.wants(m.Reset(0), devices.ErrInUse)
				other.ok(let(other))
				other.ok(m.Reset(0))
			})
		}
	}
}

// A MIG device whose handle another session took is neither taken apart nor destroyed; its neighbour is.
func TestHoldingAMIGDevice(t *testing.T) {
	m := machine(t, "gpus:\n- {model: h100-sxm5-80gb, instances: [1g.10gb@0, 1g.10gb@1]}\n")
	f, other := open(t, m, Admin("test")), open(t, m, Admin("other"))
	_, err := other.MIGDevice(other.at(0), 0)
	other.ok(err)
	gis, err := f.GIs(f.at(0), 19)
	f.ok(err)
	var cis []devices.CIHandle
	for _, gi := range gis {
		list, err := f.CIs(gi, 0)
		f.ok(err)
		cis = append(cis, list...)
	}
	f.wants(f.DestroyCI(cis[0]), devices.ErrInUse)
	f.ok(f.DestroyCI(cis[1]))
	f.ok(f.DestroyGI(gis[1]))
	f.dumps("gpu-0 h100-sxm5-80gb mig=on [1g.10gb@0]\n")

	// Its own handles are in nobody's way.
	m.CloseClient("other")
	_, err = f.MIGDevice(f.at(0), 0)
	f.ok(err)
	f.ok(f.DestroyCI(cis[0]))
	f.ok(f.DestroyGI(gis[0]))
}

func TestKilledSessionsStayDead(t *testing.T) {
	m := machine(t, "1xl4")
	a, b := open(t, m, Admin("a")), open(t, m, Admin("b"))
	m.CloseClient("a")
	_, err := a.GPUCount()
	a.wants(err, devices.ErrUninitialized)
	a.wants(a.Init(), devices.ErrUninitialized)
	_, err = b.GPUCount()
	b.ok(err)
	m.Reboot()
	_, err = b.GPUCount()
	b.wants(err, devices.ErrUninitialized)
	open(t, m, Admin("a")).at(0)

	m.Close()
	m.Close()
	if err := m.Open(Admin("late")).Init(); !errors.Is(err, devices.ErrUninitialized) {
		t.Errorf("Init on a closed machine: %v", err)
	}
}

func TestDriverComesAndGoes(t *testing.T) {
	m := machine(t, "1xh100-sxm5-80gb")
	f := open(t, m, Admin("test"))
	f.wants(m.UnloadDriver(), devices.ErrInUse) // open, though it holds no GPU
	f.ok(f.Shutdown())
	f.ok(m.Persistence(0, true))
	f.wants(m.UnloadDriver(), devices.ErrInUse)
	f.ok(m.Persistence(0, false))
	f.ok(m.UnloadDriver())
	f.wants(f.Init(), devices.ErrDriverNotLoaded)
	m.LoadDriver("600.1")
	f.ok(f.Init())
	version, err := f.DriverVersion()
	f.ok(err)
	if version != "600.1" {
		t.Errorf("version is %s", version)
	}

	m.MismatchDriver()
	_, err = f.GPUCount()
	f.ok(err) // an open session goes on
	f.wants(m.Open(Admin("new")).Init(), devices.ErrVersionMismatch)
	m.LoadDriver("")
	f.ok(m.Open(Admin("new")).Init())
}

func TestRebootChangesTheBootID(t *testing.T) {
	m := machine(t, "gpus:\n- {model: h100-sxm5-80gb, lost: true, persistence: true}\n")
	before := m.BootID()
	m.Reboot()
	if m.BootID() == before {
		t.Error("boot id is the same after a reboot")
	}
	if g := m.GPUs()[0]; g.Lost || g.Persistence {
		t.Errorf("after a reboot: %+v", g)
	}
}

func TestPermissions(t *testing.T) {
	m := machine(t, "gpus:\n- {model: h100-sxm5-80gb, instances: [1g.10gb@0]}\n- {model: h100-sxm5-80gb}\n")
	read := func(f fixture, gpu int) error { _, err := f.Memory(f.at(gpu)); return err }
	list := func(f fixture, gpu int) error {
		_, err := f.Processes(f.at(gpu), devices.ComputeProcess)
		return err
	}
	placements := func(f fixture, gpu int) error { _, err := f.GIPlacements(f.at(gpu), 19); return err }
	instances := func(f fixture, _ int) error { _, err := f.GIs(f.at(0), 19); return err }
	mode := func(f fixture, _ int) error { _, err := f.SetMIGMode(f.at(0), true); return err }
	for _, tc := range []struct {
		name   string
		client Client
		call   func(f fixture, gpu int) error
		gpu    int
		denied bool
	}{
		{"memory of a cut GPU for nobody", Client{}, read, 0, true},
		{"memory of a cut GPU with mig/config", Client{Config: true}, read, 0, true},
		{"memory of a cut GPU with mig/monitor", Client{Monitor: true}, read, 0, false},
		{"memory of a whole GPU for nobody", Client{}, read, 1, false},
		{"processes of a cut GPU for nobody", Client{}, list, 0, true},
		{"processes of a cut GPU with mig/monitor", Client{Monitor: true}, list, 0, false},
		{"processes of a whole GPU for nobody", Client{}, list, 1, false},
		{"placements for nobody", Client{}, placements, 1, true},
		{"placements with mig/config", Client{Config: true}, placements, 1, false},
		{"instances with mig/monitor", Client{Monitor: true}, instances, 0, true},
		{"instances with mig/config", Client{Config: true}, instances, 0, false},
		{"the mode with every capability", Client{Config: true, Monitor: true}, mode, 0, true},
		{"the mode as root", Client{Root: true}, mode, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.call(open(t, m, tc.client), tc.gpu)
			if errors.Is(err, devices.ErrNoPermission) != tc.denied {
				t.Errorf("got %v, denied should be %t", err, tc.denied)
			}
		})
	}
}
