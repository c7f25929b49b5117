// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package drivertest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
	"gpuslice/test/simdriver/daemon"
	"gpuslice/test/simdriver/driverroot"
	"gpuslice/test/simdriver/library"
	"gpuslice/test/simdriver/remote"
)

// mixed has one GPU for each question: two that toggle their mode, one of them cut already, one that needs a reset, and one
// that cannot be cut.
const mixed = `
gpus:
- {model: h100-sxm5-80gb}
- {model: h100-sxm5-80gb, instances: [3g.40gb@4, "2g.20gb@0{1c 1c}", "1g.10gb@2{}"]}
- {model: a100-sxm4-40gb}
- {model: l40s}
`

// node is a running simulated driver.
type node struct {
	*daemon.Daemon
	t     *testing.T
	paths driverroot.Paths
}

func startNode(t *testing.T, machine string) node { return startAged(t, machine, library.New) }

func startAged(t *testing.T, machine string, age library.Age) node {
	t.Helper()
	return start(t, machine, age, publicDir(t))
}

func start(t *testing.T, machine string, age library.Age, root string) node {
	t.Helper()
	n := node{t: t, paths: driverroot.Under(root)}
	loaded, err := daemon.LoadYAML([]byte(machine))
	check(t, err)
	n.Daemon, err = daemon.Start(daemon.Options{
		Node: loaded, Paths: n.paths, Artifacts: artifacts, Age: age, ControlSocket: filepath.Join(root, "run/control"),
	})
	check(t, err)
	// A test may have closed it.
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// restart is a new daemon on the files of one that was closed.
func (n node) restart(machine string) node {
	n.t.Helper()
	return start(n.t, machine, library.New, n.paths.Root)
}

// publicDir is a folder that other users may enter.
func publicDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// again is this program in another role.
func again(t *testing.T, role, root string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, role, root)
	cmd.Stderr = os.Stderr
	return cmd
}

// process is the adapter in a process of its own; with podNamespace it is in a PID namespace of its own too.
func (n node) process(role string, podNamespace bool) *remote.Process {
	n.t.Helper()
	cmd := again(n.t, role, n.paths.Root)
	if podNamespace {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	}
	p, err := remote.Start(cmd)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = p.Kill() })
	return p
}

// opened is a client on the host that may do everything, after Init.
func (n node) opened() (devices.Driver, *remote.Process) {
	n.t.Helper()
	p := n.process("client", false)
	if err := p.Driver().Init(); err != nil {
		n.t.Fatal(err)
	}
	return p.Driver(), p
}

// must returns the value of a call that has to succeed.
func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	limit := time.After(10 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-limit:
			t.Fatalf("%s: not within 10 s", what)
		case <-tick.C:
		}
	}
}

func (n node) gpu(number int) sim.GPU {
	n.t.Helper()
	for _, g := range n.Machine().GPUs() {
		if g.Number == number {
			return g
		}
	}
	n.t.Fatalf("no GPU %d", number)
	return sim.GPU{}
}

// control runs a control over its socket.
func (n node) control(words ...string) string {
	n.t.Helper()
	return must[string](n.t)(daemon.Control(filepath.Join(n.paths.Root, "run/control"), words...))
}
