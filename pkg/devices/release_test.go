// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

// A released GPU is let go of, also by those who wait for events, and the others go on. Taken back, it is read again.
func TestSetReleased(t *testing.T) {
	m := machine(t, "3xh100-sxm5-80gb")
	hw := open(m)
	before := snapshot(t, hw)
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { _ = hw.Watch(ctx, func(devices.Report) {}) }) // it ends with ctx
	defer watching.Wait()
	defer cancel()
	pci := before.GPUs[1].PCI
	for range 20 {
		if err := hw.SetReleased(t.Context(), map[string]string{pci: "test"}); err != nil {
			t.Fatal(err)
		}
		n := snapshot(t, hw)
		if n.GPUs[1].Released != "test" || n.GPUs[1].UUID != before.GPUs[1].UUID || n.GPUs[0].Released != "" || n.GPUs[2].Fault != nil {
			t.Fatalf("released gpu-1, read %s", lines(n))
		}
		if err := m.Reset(1); err != nil {
			t.Fatalf("reset of the released GPU: %v", err)
		}
		if err := m.Reset(0); !errors.Is(err, devices.ErrInUse) {
			t.Fatalf("reset of another GPU: %v", err)
		}
		if err := hw.On(pci).SetMode(t.Context(), true); !errors.Is(err, devices.ErrReleased) {
			t.Fatalf("change of a released GPU: %v", err)
		}
		if err := hw.SetReleased(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if n := snapshot(t, hw); n.GPUs[1].Released != "" || len(n.GPUs) != 3 {
			t.Fatalf("taken back, read %s", lines(n))
		}
	}
}

// All are let go of: the driver can be unloaded, and the node stays known.
func TestReleaseAll(t *testing.T) {
	m := machine(t, "2xh100-sxm5-80gb")
	hw := open(m)
	snapshot(t, hw)
	if err := hw.SetReleased(t.Context(), map[string]string{devices.AllGPUs: "upgrade"}); err != nil {
		t.Fatal(err)
	}
	if err := m.UnloadDriver(); err != nil {
		t.Error(err)
	}
	if n := snapshot(t, hw); len(n.GPUs) != 2 || n.GPUs[0].Released != "upgrade" {
		t.Errorf("read %s", lines(n))
	}
	m.LoadDriver("")
	if err := hw.SetReleased(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	snapshot(t, hw)
}

// P11: while a call hangs the session is not closed under it; the failure is bounded and leaves everything as it was.
func TestReleaseWhileACallHangs(t *testing.T) {
	m := machine(t, "2xh100-sxm5-80gb")
	hw := open(m)
	pci := snapshot(t, hw).GPUs[1].PCI
	end := fault(t, m, sim.Fault{Call: "Minor", GPUs: []int{0}, Form: sim.Hung})
	snapshot(t, hw)
	if err := hw.SetReleased(t.Context(), map[string]string{pci: "test"}); !errors.Is(err, devices.ErrHung) {
		t.Errorf("released under a call that hangs: %v", err)
	}
	if n := snapshot(t, hw); n.GPUs[1].Released != "" || n.GPUs[1].Fault != nil {
		t.Errorf("after the failure: %s", lines(n))
	}
	end()
	eventually(t, func() bool { return hw.SetReleased(t.Context(), map[string]string{pci: "test"}) == nil })
}

func eventually(t *testing.T, done func() bool) {
	t.Helper()
	start, tick := time.Now(), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for !done() {
		if time.Since(start) > 30*time.Second {
			t.Fatal("not reached in 30 s")
		}
		<-tick.C
	}
}

// P11: one GPU that hangs is that GPU's fault; all of several that hang are this process's, and too many calls too.
func TestExhausted(t *testing.T) {
	for _, tt := range []struct {
		name, why string
		gpus      int
		hanging   []int
		want      bool
	}{
		{"none", "nothing hangs", 2, nil, false},
		{"one of two", "the other one answers", 2, []int{0}, false},
		{"both", "two GPUs do not fall ill at once", 2, []int{0, 1}, true},
		{"the only one", "a new process would hang in it as well", 1, []int{0}, false},
		{"eight of nine", "threads are not without end", 9, []int{0, 1, 2, 3, 4, 5, 6, 7}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := machine(t, fmt.Sprintf("%dxl40s", tt.gpus))
			hw := open(m)
			snapshot(t, hw)
			if tt.hanging != nil {
				defer fault(t, m, sim.Fault{Call: "Minor", GPUs: tt.hanging, Form: sim.Hung})()
			}
			snapshot(t, hw)
			if got := hw.Exhausted(); got != tt.want {
				t.Errorf("exhausted: %t, want %t: %s", got, tt.want, tt.why)
			}
		})
	}
}

// P11: calls that the end of the process breaks off are no sign of illness, however many there are.
func TestBrokenOffCallsExhaustNobody(t *testing.T) {
	m := machine(t, "9xl40s")
	hw := open(m)
	snapshot(t, hw)
	defer fault(t, m, sim.Fault{Call: "Minor", Form: sim.Hung})()
	ctx, cancel := context.WithCancel(t.Context())
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		_, _ = hw.Snapshot(ctx) // it is broken off
	}()
	eventually(t, func() bool { return m.Calls("test")["Minor"] >= 18 }) // every GPU a second time
	cancel()
	<-reading
	if hw.Exhausted() {
		t.Error("exhausted by the end of the context")
	}
}

// A process that has the device node open is named, by whichever path it opened it; this process is not.
func TestNodeHolders(t *testing.T) {
	dev := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dev, "dev"), 0o700), os.Symlink("/dev/null", filepath.Join(dev, "dev/nvidia3"))); err != nil {
		t.Fatal(err)
	}
	own, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	child, err := os.StartProcess("/bin/sleep", []string{"sleep", "60"}, &os.ProcAttr{Files: []*os.File{own}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = child.Kill() // ours, and how it ends is of no interest
		_, _ = child.Wait()
	}()
	sys := t.TempDir()
	if err := os.MkdirAll(filepath.Join(sys, "module/nvidia/holders/nvidia_drm"), 0o700); err != nil {
		t.Fatal(err)
	}
	h := devices.NodeHolders{Proc: "/proc", Sys: sys, Dev: dev}
	want := fmt.Sprintf("pid %d (sleep)", child.Pid)
	eventually(t, func() bool { return slices.Contains(h.Clients("", 3), want) }) // it is called sleep once it runs
	for _, name := range h.Clients("", 3) {
		if name == fmt.Sprintf("pid %d (devices.test)", os.Getpid()) {
			t.Error("this process is named")
		}
	}
	copied := filepath.Join(dev, "dev/nvidia5")
	if err := syscall.Mknod(copied, syscall.S_IFCHR|0o600, 1<<8|3); err == nil { // only root makes nodes
		if names := h.Clients("", 5); slices.Contains(names, want) {
			t.Errorf("another node of the same number among our own mounts is held by %v", names)
		}
	}
	daemon := filepath.Join(dev, "nvidia-persistenced")
	program, err := os.ReadFile("/bin/sleep")
	if err := errors.Join(err, os.WriteFile(daemon, program, 0o700)); err != nil {
		t.Fatal(err)
	}
	persistence, err := os.StartProcess(daemon, []string{"nvidia-persistenced", "60"}, &os.ProcAttr{Files: []*os.File{own}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = persistence.Kill() // ours, and how it ends is of no interest
		_, _ = persistence.Wait()
	}()
	comm := fmt.Sprintf("/proc/%d/comm", persistence.Pid)
	eventually(t, func() bool { text, err := os.ReadFile(comm); return err == nil && string(text) == "nvidia-persiste\n" })
	for _, name := range h.Clients("", 3) {
		if strings.HasPrefix(name, fmt.Sprintf("pid %d ", persistence.Pid)) {
			t.Errorf("%s holds for persistence mode, which is turned off where it is in the way", name)
		}
	}
	if names := h.Clients("", 4); len(names) > 0 {
		t.Errorf("a GPU without a node is held by %v", names)
	}
	if got := h.Modules(); !slices.Equal(got, []string{"kernel module nvidia_drm"}) {
		t.Errorf("modules: %v", got)
	}
}

// M23: a process without the right to see into MIG is told which capability it lacks; the other GPUs are read as ever.
func TestNoPermissionSaysWhatIsMissing(t *testing.T) {
	m, err := sim.ParseYAML([]byte("gpus:\n- {model: h100-sxm5-80gb, instances: [3g.40gb@4]}\n- {model: h100-sxm5-80gb}\n"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	hw := devices.New(m.Open(sim.Client{Name: "test", PID: 1}), devices.Options{CallLimit: time.Second})
	n := snapshot(t, hw)
	_, processes := hw.Processes(t.Context(), n.GPUs[0].PCI)
	said := 0
	for _, err := range []error{n.GPUs[0].Fault, processes} {
		if err != nil && strings.Contains(err.Error(), "nvidia-cap1 (mig/config)") && errors.Is(err, devices.ErrNoPermission) {
			said++
		}
	}
	if said == 0 || n.GPUs[1].Fault != nil {
		t.Errorf("faults: %v; %v; processes: %v", n.GPUs[0].Fault, n.GPUs[1].Fault, processes)
	}
}

// stuck is a reset that never ends by itself.
type stuck struct{ devices.Program }

func (stuck) Reset(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

// M17, P11: a reset that hangs is given up, and the GPU is read again afterwards.
func TestResetThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := sim.ParseYAML([]byte("gpus:\n- {model: a100-sxm4-40gb, pending: true}\n"))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		hw := devices.New(m.Open(sim.Admin("test")), devices.Options{Program: stuck{}})
		pci := snapshot(t, hw).GPUs[0].PCI
		start := time.Now()
		if err := hw.On(pci).Reset(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("reset: %v", err)
		}
		if took := time.Since(start); took > 5*time.Minute {
			t.Errorf("given up after %v", took)
		}
		if g := snapshot(t, hw).GPUs[0]; g.Released != "" || g.Fault != nil {
			t.Errorf("afterwards %s", g)
		}
	})
}
