// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package drivertest_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/nvml"
	"gpuslice/pkg/devices/sim"
	"gpuslice/test/simdriver/remote"
	"gpuslice/test/simdriver/wire"
)

// twoCut is a GPU with two instances.
const twoCut = "gpus: [{model: h100-sxm5-80gb, instances: [3g.40gb@4, 1g.10gb@0]}]"

// What one process makes, another sees.
func TestProcessesSeeOneNode(t *testing.T) {
	n := startNode(t, "gpus: [{model: h100-sxm5-80gb, mig: true}]")
	first, _ := n.opened()
	gpu := must[devices.GPUHandle](t)(first.GPUByIndex(0))
	profile := must[devices.GIProfile](t)(first.GIProfile(gpu, 0))
	at := must[[]devices.Placement](t)(first.GIPlacements(gpu, profile.ID))[2]
	gi := must[devices.GIHandle](t)(first.CreateGI(gpu, profile.ID, at))
	ci := must[devices.CIProfile](t)(first.CIProfile(gi, 0))
	must[devices.CIHandle](t)(first.CreateCI(gi, ci.ID))

	second, _ := n.opened()
	device := must[devices.GPUHandle](t)(second.MIGDevice(must[devices.GPUHandle](t)(second.GPUByIndex(0)), 0))
	got := must[string](t)(second.UUID(device))
	if want := n.gpu(0).Instances[0].UUID; got != want {
		t.Errorf("second process sees %s, want %s", got, want)
	}
}

// A process that is killed lets go of what it held, even in the middle of a call that hangs.
func TestKillingAProcessEndsItsSession(t *testing.T) {
	for _, tt := range []struct {
		name, why string
		before    func(n node, d devices.Driver, p *remote.Process)
	}{
		{"idle", "the kernel closes its connection", func(node, devices.Driver, *remote.Process) {}},
		{"waiting", "a wait for events takes no end by itself", func(n node, d devices.Driver, p *remote.Process) {
			set := must[devices.EventSet](n.t)(d.NewEventSet())
			check(n.t, set.Register(must[devices.GPUHandle](n.t)(d.GPUByIndex(0)), devices.EventXID))
			n.background(func() { _, _ = set.Wait(time.Hour) })
			n.called(p, "nvmlEventSetWait_v2")
		}},
		{"hanging", "a call that never comes back holds the session otherwise", func(n node, d devices.Driver, p *remote.Process) {
			release := must[func()](n.t)(n.Machine().Fail(sim.Fault{Call: "Name", Form: sim.Hung}))
			n.t.Cleanup(release)
			gpu := must[devices.GPUHandle](n.t)(d.GPUByIndex(0))
			n.background(func() { _, _ = d.Name(gpu) })
			n.called(p, "nvmlDeviceGetName")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := startNode(t, "gpus: [{model: a100-sxm4-40gb}]")
			d, p := n.opened()
			must[devices.GPUHandle](t)(d.GPUByIndex(0))
			tt.before(n, d, p)
			if err := n.Machine().Reset(0); !errors.Is(err, devices.ErrInUse) {
				t.Fatalf("reset of a GPU that a process holds: %v", err)
			}
			check(t, p.Kill())
			eventually(t, tt.why, func() bool { return n.Machine().Reset(0) == nil })
		})
	}
}

// background runs something that ends with its process; the test waits for it.
func (n node) background(work func()) {
	done := make(chan struct{})
	go func() { defer close(done); work() }()
	n.t.Cleanup(func() { <-done })
}

// called waits until a process has made a call.
func (n node) called(p *remote.Process, symbol string) {
	n.t.Helper()
	eventually(n.t, symbol, func() bool { return n.Calls(p.PID())[symbol] > 0 })
}

// Shutdown lets go too, while the process goes on; NVML counts how often a process opened it.
func TestTheSessionEndsWithTheLastShutdown(t *testing.T) {
	n := startNode(t, "gpus: [{model: a100-sxm4-40gb}]")
	d, _ := n.opened()
	must[devices.GPUHandle](t)(d.GPUByIndex(0))
	answers(t, "unload under a session", n.Machine().UnloadDriver(), devices.ErrInUse)
	check(t, d.Shutdown())
	answers(t, "unload after Shutdown", n.Machine().UnloadDriver(), nil)
	n.Machine().LoadDriver("")
	check(t, d.Init(), d.Init())
	check(t, d.Shutdown())
	answers(t, "unload after one Shutdown of two", n.Machine().UnloadDriver(), devices.ErrInUse)
}

// Bytes that are no calls cost their sender the connection or an answer, and nobody else anything.
func TestGarbageHarmsNobody(t *testing.T) {
	n := startNode(t, mixed)
	for _, garbage := range []string{
		"GET / HTTP/1.1\r\n\r\n", strings.Repeat("\xff", 64), "\x00\x00\x00\x00\x03\x00\x00\x00abc",
		"\x00\x00\x00\x00\x1d\x00\x00\x00nvmlDeviceGetHandleByIndex\x00\x01\x00", "\xff\xff\xff\xff\x00\x00\x00\x00",
	} {
		folder := must[*os.File](t)(os.Open(wire.SocketFolder(n.paths.Root)))
		c := must[net.Conn](t)(net.Dial("unix", wire.Address(folder, "socket")))
		_ = must[int](t)(c.Write([]byte(garbage)))
		check(t, c.Close(), folder.Close())
	}
	d, _ := n.opened()
	if got := must[int](t)(d.GPUCount()); got != 4 {
		t.Errorf("%d GPUs", got)
	}
}

// A hung call does not stop the others of its process.
func TestCallsOfOneProcessRunBesideEachOther(t *testing.T) {
	n := startNode(t, twoCut)
	c := exec.CommandContext(t.Context(), artifacts.List(), n.paths.NVML())
	release := must[func()](t)(n.Machine().Fail(sim.Fault{Call: "Name", Form: sim.Hung, Nth: 1}))
	check(t, c.Start())
	eventually(t, "the call hangs", func() bool { return n.Calls(c.Process.Pid)["nvmlDeviceGetName"] == 1 })
	d, _ := n.opened()
	must[int](t)(d.GPUCount())
	release()
	if err := c.Wait(); err == nil {
		t.Error("the call that hung succeeded")
	}
}

// The daemon counts by process, whatever the process does in its own code.
func TestCallsAreCountedByProcess(t *testing.T) {
	n := startNode(t, mixed)
	first, p := n.opened()
	second, q := n.opened()
	for range 3 {
		must[int](t)(first.GPUCount())
	}
	must[int](t)(second.GPUCount())
	for pid, want := range map[int]int{p.PID(): 3, q.PID(): 1} {
		if got := n.Calls(pid)["nvmlDeviceGetCount_v2"]; got != want {
			t.Errorf("process %d: %d calls, want %d", pid, got, want)
		}
		if got := n.control("calls", strconv.Itoa(pid)); !strings.Contains(got, "nvmlDeviceGetCount_v2 "+strconv.Itoa(want)+"\n") {
			t.Errorf("control says %q", got)
		}
	}
}

// A process in a PID namespace of its own sees none of the host's processes, and its own by its own numbers.
func TestProcessListsAreThoseOfTheNamespace(t *testing.T) {
	n := startNode(t, twoCut)
	host, _ := n.opened()
	pod := n.process("client", true)
	check(t, pod.Driver().Init())
	n.control("start-process", "0", "4711", "slot=3g.40gb@4", "mib=7")
	n.control("start-process", "0", strconv.Itoa(pod.PID()), "slot=1g.10gb@0", "mib=9")
	instances := n.gpu(0).Instances
	want := map[string][]devices.Process{
		"host": {
			{PID: 4711, MemoryBytes: 7 << 20, GI: instances[0].GI},
			{PID: pod.PID(), MemoryBytes: 9 << 20, GI: instances[1].GI},
		},
		"pod": {{PID: 1, MemoryBytes: 9 << 20, GI: instances[1].GI}},
	}
	got := map[string][]devices.Process{}
	for name, d := range map[string]devices.Driver{"host": host, "pod": pod.Driver()} {
		gpu := must[devices.GPUHandle](t)(d.GPUByIndex(0))
		got[name] = must[[]devices.Process](t)(d.Processes(gpu, devices.ComputeProcess))
	}
	if diff := cmp.Diff(want, got, cmpopts.SortSlices(func(a, b devices.Process) bool { return a.GI < b.GI })); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
	check(t, pod.Kill())
	eventually(t, "a process that died uses nothing", func() bool { return strings.Count(n.Machine().Dump(), "*") == 1 })
}

// The write log names the process.
func TestTheLogNamesTheProcess(t *testing.T) {
	n := startNode(t, "gpus: [{model: h100-sxm5-80gb}]")
	d, p := n.opened()
	_, err := d.SetMIGMode(must[devices.GPUHandle](t)(d.GPUByIndex(0)), true)
	check(t, err)
	want := strconv.Itoa(p.PID()) + " SetMIGMode gpu=0 mig=on done=true ok\n"
	if got := n.control("log"); got != want {
		t.Errorf("log is %q, want %q", got, want)
	}
}

// A daemon that died is a driver that is not loaded; one that starts again is found without a restart of the process.
func TestAProcessFindsTheNextDaemon(t *testing.T) {
	n := startNode(t, mixed)
	d, _ := n.opened()
	check(t, n.Close())
	_, err := d.GPUCount()
	if !errors.Is(err, devices.ErrDriverNotLoaded) {
		t.Errorf("call without a daemon: %v", err)
	}
	next := n.restart(mixed)
	_, err = d.GPUCount()
	if !errors.Is(err, devices.ErrUninitialized) {
		t.Errorf("call of a session that the next daemon does not know: %v", err)
	}
	_ = d.Shutdown() // the session is gone already
	check(t, d.Init())
	if got := must[int](t)(d.GPUCount()); got != len(next.Machine().GPUs()) {
		t.Errorf("%d GPUs", got)
	}
}

// As with the real library, /proc shows which GPUs a process works with, until it shuts down.
func TestProcShowsWhoHoldsAGPU(t *testing.T) {
	n := startNode(t, "gpus: [{model: h100-sxm5-80gb, count: 2}]")
	holders := devices.NodeHolders{Proc: "/proc", Dev: n.paths.Dev}
	d, p := n.opened()
	want := fmt.Sprintf("pid %d (drivertest.test)", p.PID())
	held := func(minor int) bool { return slices.Contains(holders.Clients("", minor), want) }
	if held(1) {
		t.Error("held before a handle was taken")
	}
	must[devices.GPUHandle](t)(d.GPUByIndex(1))
	if !held(1) || held(0) {
		t.Errorf("holders of the GPUs: %v, %v; want %s on the second alone",
			holders.Clients("", 0), holders.Clients("", 1), want)
	}
	check(t, d.Shutdown())
	if held(1) {
		t.Error("held after the end of the session")
	}
}

// Persistence mode goes through the library and holds the GPU; nvidia-smi resets it when nothing does, as Program starts it.
func TestPersistenceAndReset(t *testing.T) {
	n := startNode(t, "gpus: [{model: a100-sxm4-40gb, pending: true}]")
	d, _ := n.opened()
	gpu := must[devices.GPUHandle](t)(d.GPUByIndex(0))
	bus := must[string](t)(d.BusID(gpu))
	check(t, d.SetPersistenceMode(gpu, true))
	if on := must[bool](t)(d.PersistenceMode(gpu)); !on || !n.gpu(0).Persistence {
		t.Errorf("persistence mode reads back %t, the machine says %t", on, n.gpu(0).Persistence)
	}
	program := nvml.Program{DriverRoot: n.paths.Root}
	for _, let := range []func() error{func() error { return d.SetPersistenceMode(gpu, false) }, d.Shutdown} {
		if err := program.Reset(t.Context(), bus); !errors.Is(err, devices.ErrInUse) {
			t.Fatalf("reset of a GPU that is held: %v", err)
		}
		check(t, let())
	}
	check(t, program.Reset(t.Context(), bus))
	if !n.gpu(0).MIG {
		t.Error("the pending mode did not become the mode")
	}
	if err := program.Reset(t.Context(), "00000000:FF:00.0"); !errors.Is(err, devices.ErrNotFound) {
		t.Errorf("reset of a GPU that is not there: %v", err)
	}
	if err := (nvml.Program{DriverRoot: t.TempDir()}).Reset(t.Context(), bus); !errors.Is(err, devices.ErrNotSupported) {
		t.Errorf("reset without the program: %v", err)
	}
}
