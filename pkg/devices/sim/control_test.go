// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/pkg/devices"
)

func TestLostGPU(t *testing.T) {
	m := machine(t, "gpus:\n- {model: h100-sxm5-80gb, instances: [1g.10gb@0]}\n- {model: h100-sxm5-80gb}\n")
	f := open(t, m, Admin("test"))
	lost, other := f.at(0), f.at(1)
	gis, err := f.GIs(lost, 19)
	f.ok(err)
	f.ok(m.Lose(0))
	_, err = f.UUID(lost)
	f.wants(err, devices.ErrLost)
	f.wants(f.DestroyGI(gis[0]), devices.ErrLost)
	_, err = f.GPUByIndex(0)
	f.wants(err, devices.ErrLost)
	_, err = f.GPUByUUID(m.GPUs()[1].UUID)
	f.wants(err, devices.ErrLost)
	_, err = f.GPUByBusID(m.GPUs()[1].BusID)
	f.ok(err)
	_, err = f.Memory(other)
	f.ok(err)
	f.dumps("gpu-0 h100-sxm5-80gb mig=on [1g.10gb@0] lost\ngpu-1 h100-sxm5-80gb mig=off\n")
	f.ok(m.Restore(0))
	_, err = f.GPUByUUID(m.GPUs()[1].UUID)
	f.ok(err)
}

// Indexes move when a GPU comes or goes, but not under an open session.
func TestHotPlug(t *testing.T) {
	m := machine(t, "2xl4")
	f := open(t, m, Admin("test"))
	first := f.at(0)
	f.ok(m.RemoveGPU(1))
	number, err := m.AddGPU("l40s", "0000:01:00.0")
	f.ok(err)
	behind, err := m.AddGPU("t4", "")
	f.ok(err)

	index, err := f.Index(first)
	f.ok(err)
	count, err := f.GPUCount()
	f.ok(err)
	_, gone := f.GPUByIndex(1)
	f.wants(gone, devices.ErrLost)
	if index != 0 || count != 2 {
		t.Errorf("an open session sees index %d of %d", index, count)
	}
	f.ok(f.Shutdown())
	f.ok(f.Init())
	f.dumps("gpu-1 l40s\ngpu-0 l4\ngpu-2 t4\n")
	_, err = f.GPUByUUID(m.GPUs()[2].UUID)
	f.ok(err)

	var got []string
	for _, g := range m.GPUs() {
		got = append(got, fmt.Sprintf("number %d minor %d %s", g.Number, g.Minor, g.BusID))
	}
	want := []string{
		fmt.Sprintf("number %d minor 1 00000000:01:00.0", number), "number 0 minor 0 00000000:10:00.0",
		fmt.Sprintf("number %d minor 2 00000000:18:00.0", behind),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("GPUs (-want +got):\n%s", diff)
	}
	m.Reboot()
	for i, g := range m.GPUs() {
		if g.Minor != i {
			t.Errorf("after a reboot minor %d has index %d", g.Minor, i)
		}
	}
	if _, err := m.AddGPU("l4", "0000:01:00.0"); err == nil {
		t.Error("two GPUs at one bus id")
	}
	if _, err := m.AddGPU("voodoo2", ""); err == nil {
		t.Error("an unknown model is accepted")
	}
}

func TestHotPlugIntoNothing(t *testing.T) {
	m := machine(t, "1xl4")
	if err := m.RemoveGPU(0); err != nil {
		t.Fatal(err)
	}
	if _, err := m.AddGPU("t4", ""); err != nil {
		t.Fatal(err)
	}
	if got, want := m.Dump(), "gpu-0 t4\n"; got != want {
		t.Errorf("machine is %s, want %s", got, want)
	}
}

func TestControlsKnowTheirGPUs(t *testing.T) {
	m := machine(t, "1xl4")
	for name, err := range map[string]error{
		"Lose": m.Lose(1), "Restore": m.Restore(1), "Persistence": m.Persistence(1, true), "Reset": m.Reset(1), "XID": m.XID(1, 1, 0, 0),
		"RemoveGPU": m.RemoveGPU(1), "StartProcess": m.StartProcess(1, Process{}), "StopProcess": m.StopProcess(1, 1),
	} {
		if !errors.Is(err, devices.ErrNotFound) {
			t.Errorf("%s on no GPU: %v", name, err)
		}
	}
}

func TestProcessLists(t *testing.T) {
	m := machine(t, "gpus:\n- {model: h100-sxm5-80gb, instances: [1g.10gb@0, 3g.40gb@4]}\n")
	f := open(t, m, Admin("test"))
	for pid, ns := range map[int]string{10: "", 20: "pod-a", 30: "pod-b", 40: "pod-a/inner"} {
		f.ok(m.StartProcess(0, Process{PID: pid, Namespace: ns, GI: 2, CI: 0}))
	}
	f.ok(m.StartProcess(0, Process{PID: 50, Kind: devices.MPSProcess, MemoryBytes: 7, GI: 7, CI: 0}))
	f.wants(m.StartProcess(0, Process{PID: 60, GI: 3, CI: 0}), devices.ErrNotFound)
	for _, tc := range []struct {
		name string
		ns   string
		kind devices.ProcessKind
		mig  int // index; -1: the GPU
		want int
	}{
		{"the host sees all", "", devices.ComputeProcess, -1, 4},
		{"a namespace sees itself and what is below", "pod-a", devices.ComputeProcess, -1, 2},
		{"a namespace does not see its parents", "pod-a/inner", devices.ComputeProcess, -1, 1},
		{"names are whole", "pod", devices.ComputeProcess, -1, 0},
		{"each kind has its list", "", devices.MPSProcess, -1, 1},
		{"a MIG device has its own", "", devices.MPSProcess, 0, 0},
		{"a MIG device has its own, 2", "", devices.MPSProcess, 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := open(t, m, Client{PIDNamespace: tc.ns, Root: true})
			h := f.at(0)
			if tc.mig >= 0 {
				var err error
				h, err = f.MIGDevice(h, tc.mig)
				f.ok(err)
			}
			list, err := f.Processes(h, tc.kind)
			f.ok(err)
			if len(list) != tc.want {
				t.Errorf("list is %+v, want %d", list, tc.want)
			}
		})
	}
	_, err := f.Processes(f.at(0), 99)
	f.wants(err, devices.ErrInvalidArgument)
}

func TestProcessesAreInTheWay(t *testing.T) {
	m := machine(t, "gpus:\n- {model: h100-sxm5-80gb, instances: [1g.10gb@0]}\n")
	f := open(t, m, Admin("test"))
	gis, err := f.GIs(f.at(0), 19)
	f.ok(err)
	cis, err := f.CIs(gis[0], 0)
	f.ok(err)
	f.ok(m.StartProcess(0, Process{PID: 1, GI: 7, CI: 0}))
	f.dumps("gpu-0 h100-sxm5-80gb mig=on [1g.10gb@0*]\n")
	f.wants(f.DestroyCI(cis[0]), devices.ErrInUse)
	f.create(f.at(0), "1g.10gb", 1) // in nobody's way
	f.ok(m.StopProcess(0, 1))
	f.ok(f.DestroyCI(cis[0]))

	half := f.create(f.at(0), "2g.20gb", 4)
	first, err := f.CreateCI(half, 0)
	f.ok(err)
	second, err := f.CreateCI(half, 0)
	f.ok(err)
	f.ok(m.StartProcess(0, Process{PID: 3, GI: 5, CI: 0}))
	f.wants(f.DestroyCI(first), devices.ErrInUse)
	f.ok(f.DestroyCI(second)) // its neighbour in the same GPU instance

	f.ok(m.StartProcess(0, Process{PID: 2, GI: devices.NoInstance, CI: devices.NoInstance}))
	_, err = f.try(f.at(0), "1g.10gb", 2)
	f.wants(err, devices.ErrInUse)
}

// Clients and controls at once: for the race detector, and every instance that was made is destroyed again.
func TestManyClients(t *testing.T) {
	m := machine(t, "gpus:\n- {model: h100-sxm5-80gb, mig: true}\n")
	var group sync.WaitGroup
	for worker := range 7 {
		group.Go(func() {
			f := fixture{Driver: m.Open(Admin(fmt.Sprint(worker))), t: t, machine: m}
			if err := f.Init(); err != nil {
				t.Error(err)
				return
			}
			for range 50 {
				gpu, err := f.GPUByIndex(0)
				if err != nil {
					t.Error(err)
					return
				}
				gi, err := f.CreateGI(gpu, 19, devices.Placement{Start: worker, Size: 1})
				if err != nil {
					t.Error(err)
					return
				}
				ci, err := f.CreateCI(gi, 0)
				if err := errors.Join(err, f.DestroyCI(ci), f.DestroyGI(gi)); err != nil {
					t.Error(err)
				}
				_ = m.Dump()
				_ = m.XID(0, 13, devices.NoInstance, devices.NoInstance)
			}
		})
	}
	group.Wait()
	if got, want := m.Dump(), "gpu-0 h100-sxm5-80gb mig=on []\n"; got != want {
		t.Errorf("machine is %s, want %s", got, want)
	}
}
