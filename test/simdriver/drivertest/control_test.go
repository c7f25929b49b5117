// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package drivertest_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpuslice/pkg/devices"
	"gpuslice/test/simdriver/daemon"
)

// What a control does, a process sees through the library.
func TestControlsReachProcesses(t *testing.T) {
	n := startNode(t, "gpus: [{model: h100-sxm5-80gb}, {model: l40s}]")
	d, p := n.opened()
	gpu := must[devices.GPUHandle](t)(d.GPUByIndex(0))
	name := func() error { _, err := d.Name(gpu); return err }
	n.control("lose", "0")
	answers(t, "lost", name(), devices.ErrLost)
	n.control("restore", "0")
	answers(t, "restored", name(), nil)
	fault := strings.TrimSpace(n.control("fail", "call=Name", "client="+strconv.Itoa(p.PID()), "gpus=0", "code=TIMEOUT"))
	answers(t, "failing", name(), devices.ErrTimeout)
	n.control("heal", fault)
	answers(t, "healed", name(), nil)
	n.control("latency", "Name", "30ms")
	start := time.Now()
	answers(t, "slow", name(), nil)
	if took := time.Since(start); took < 30*time.Millisecond {
		t.Errorf("a slow call took %v", took)
	}
	n.control("kill-session", strconv.Itoa(p.PID()))
	answers(t, "killed", name(), devices.ErrUninitialized)
	n.control("mismatch")
	answers(t, "mismatch", n.process("client", false).Driver().Init(), devices.ErrVersionMismatch)
}

func answers(t *testing.T, when string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: %v, want %v", when, got, want)
	}
}

// Events arrive while the process already waits.
func TestEventsWakeWhoWaits(t *testing.T) {
	n := startNode(t, twoCut)
	d, p := n.opened()
	gpu := must[devices.GPUHandle](t)(d.GPUByIndex(0))
	set := must[devices.EventSet](t)(d.NewEventSet())
	check(t, set.Register(gpu, devices.EventXID|devices.EventRecoveryAction))
	got := make(chan devices.Event, 2)
	n.background(func() {
		for range cap(got) {
			e, err := set.Wait(10 * time.Second)
			if err != nil {
				t.Error(err)
			}
			got <- e
		}
	})
	n.called(p, "nvmlEventSetWait_v2")
	i := n.gpu(0).Instances[0]
	n.control("xid", "0", "94", strconv.Itoa(i.GI), strconv.Itoa(i.CI))
	n.control("event", "0", fmt.Sprint(devices.EventRecoveryAction), "1")
	for _, want := range []devices.Event{
		{GPU: gpu, Type: devices.EventXID, Data: 94, GI: i.GI, CI: i.CI},
		{GPU: gpu, Type: devices.EventRecoveryAction, Data: 1, GI: devices.NoInstance, CI: devices.NoInstance},
	} {
		if e := <-got; e != want {
			t.Errorf("event is %+v, want %+v", e, want)
		}
	}
}

func TestSessionsAreListed(t *testing.T) {
	n := startNode(t, twoCut)
	_, p := n.opened()
	want := strconv.Itoa(p.PID()) + " open root=true namespace=\"\"\n"
	if got := n.control("sessions"); got != want {
		t.Errorf("sessions are %q, want %q", got, want)
	}
	check(t, p.Kill())
	eventually(t, "the session is gone", func() bool { return n.control("sessions") == "" })
}

// Limits that a process sets and those of a control are the same ones. The driver's own answers come through.
func TestMemoryLimitsCrossTheLibrary(t *testing.T) {
	n := startNode(t, "driver: {version: 615.28.01}\ngpus: [{model: l40s, reservedMiB: 68}, {model: h100-sxm5-80gb, mig: true}]")
	d, _ := n.opened()
	gpu, cut := must[devices.GPUHandle](t)(d.GPUByIndex(0)), must[devices.GPUHandle](t)(d.GPUByIndex(1))
	cgroup := t.TempDir()
	if got := must[uint64](t)(d.ReservedMemory(gpu)); got != 68<<20 {
		t.Errorf("reserved are %d bytes", got)
	}
	_, err := d.MemoryLimits(gpu, cgroup)
	answers(t, "no limit", err, devices.ErrNotFound)
	check(t, d.SetMemoryLimits(gpu, cgroup, 1<<20, 3<<20))
	if got := n.control("memory-limits", "0"); got != cgroup+" soft=1048576 hard=3145728\n" {
		t.Errorf("limits are %q", got)
	}
	n.control("memory-limit", "0", cgroup, "4194304")
	if got := must[devices.MemoryLimits](t)(d.MemoryLimits(gpu, cgroup)); got != (devices.MemoryLimits{Hard: 4 << 20}) {
		t.Errorf("limits are %+v", got)
	}
	n.control("memory-limit", "0", cgroup, "none")
	_, err = d.MemoryLimits(gpu, cgroup)
	answers(t, "limit taken away", err, devices.ErrNotFound)
	answers(t, "no cgroup", d.SetMemoryLimits(gpu, "/nowhere", 0, 1<<20), devices.ErrOperatingSystem)
	answers(t, "too much", d.SetMemoryLimits(gpu, cgroup, 0, 1<<50), devices.ErrInvalidArgument)
	answers(t, "MIG mode", d.SetMemoryLimits(cut, cgroup, 0, 1<<20), devices.ErrNotSupported)
}

// A control that is wrong says what would be right, and changes nothing.
func TestWrongControlsAreExplained(t *testing.T) {
	n := startNode(t, twoCut)
	before := n.control("dump")
	for _, tt := range []struct {
		words []string
		want  string
	}{
		{nil, "no control given"},
		{[]string{"explode"}, "unknown control \"explode\"\n  dump"},
		{[]string{"lose"}, "usage: lose GPU"},
		{[]string{"lose", "x"}, "\"x\" is no number"},
		{[]string{"lose", "9"}, "gpu number 9: driver answered NOT_FOUND"},
		{[]string{"persistence", "0", "yes"}, "\"yes\" is not one of off, on"},
		{[]string{"memory-limit", "0", "/", "much"}, "\"much\" is neither a number of bytes nor none"},
		{[]string{"memory-limit", "0", "/nowhere", "1"}, "OPERATING_SYSTEM"},
		{[]string{"fail", "call=Explode"}, "unknown call \"Explode\""},
		{[]string{"fail", "color=red"}, "\"color=red\" is not KEY=VALUE with a key of call, client"},
		{[]string{"heal", "7"}, "no fault 7"},
		{[]string{"start-process", "0", "1", "slot=7g.80gb@0"}, "GPU 0 has no instance 7g.80gb@0"},
		{[]string{"add", "voodoo"}, "unknown model \"voodoo\""},
		{[]string{"latency", "Name", "soon"}, "invalid duration"},
	} {
		_, err := daemon.Control(filepath.Join(n.paths.Root, "run/control"), tt.words...)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %q", tt.words, err, tt.want)
		}
	}
	if after := n.control("dump"); after != before {
		t.Errorf("machine was\n%sand is\n%s", before, after)
	}
}

// After a reboot of the machine the same process opens the driver again.
func TestAProcessOutlivesAReboot(t *testing.T) {
	n := startNode(t, twoCut)
	d, _ := n.opened()
	n.control("reboot")
	_, err := d.GPUCount()
	answers(t, "session of the boot before", err, devices.ErrUninitialized)
	check(t, d.Init())
	if got := must[int](t)(d.GPUCount()); got != 1 {
		t.Errorf("%d GPUs", got)
	}
}

// A GPU that is pulled out is lost to who had it open.
func TestAGPUThatIsPulledOutIsLost(t *testing.T) {
	n := startNode(t, "gpus: [{model: l40s}, {model: h100-sxm5-80gb}]")
	d, _ := n.opened()
	gpu := must[devices.GPUHandle](t)(d.GPUByIndex(1))
	n.control("remove", "1")
	_, err := d.Memory(gpu)
	answers(t, "memory", err, devices.ErrLost)
	_, err = d.MIGDevice(gpu, 0)
	answers(t, "MIG device", err, devices.ErrLost)
}
