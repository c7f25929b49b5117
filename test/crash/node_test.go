// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package crash_test kills the shipped binary, as a real process, before and after each of its side effects, and wants the
// next process to finish the work on the hardware and the files that survived.
package crash_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gpuslice/test/crash/killer"
	"gpuslice/test/kubelet/kubelettest"
	"gpuslice/test/simdriver/daemon"
	"gpuslice/test/simdriver/driverroot"
	"gpuslice/test/simdriver/library"
)

const (
	limit = 20 * time.Second // ten times what a pass may take on a busy machine
	head  = "apiVersion: gpuslice.dev/v1alpha1\nkind: SharingConfig\n"
	mig2g = "nvidia.com/mig-2g.20gb"
	mig1g = "nvidia.com/mig-1g.10gb"
	mig3g = "nvidia.com/mig-3g.40gb"
	mig7g = "nvidia.com/mig-7g.80gb"
)

var (
	binary    string
	artifacts library.Artifacts
)

func TestMain(m *testing.M) {
	killer.Main()
	dir, err := os.MkdirTemp("", "crash")
	if err == nil {
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(status)
}

func build(dir string) (err error) {
	if err := os.Chdir("../.."); err != nil {
		return err
	}
	binary = filepath.Join(dir, "gpu-plugin")
	if out, err := exec.Command("go", "build", "-o", binary, "./cmd/gpu-plugin").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	artifacts, err = library.Build(context.Background(), filepath.Join(dir, "driver"))
	return err
}

// node is hardware, files and a kubelet that outlive the agent's process.
type node struct {
	*kubelettest.Kubelet
	t      *testing.T
	driver *daemon.Daemon
	paths  driverroot.Paths
	dir    string

	mu    sync.Mutex
	agent *exec.Cmd
	ended chan struct{}
}

func newNode(t *testing.T, machine string) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "n") // socket paths are limited to 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	hardware, err := daemon.Load(machine)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{Kubelet: kubelettest.Start(t), t: t, dir: dir, paths: driverroot.Under(filepath.Join(dir, "r"))}
	n.paths.Major = 240 // other tests simulate drivers at the same time
	if n.driver, err = daemon.Start(daemon.Options{Node: hardware, Paths: n.paths, Artifacts: artifacts}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.kill()
		if err := errors.Join(n.driver.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return n
}

func (n *node) path(name string) string { return filepath.Join(n.dir, name) }

// configure replaces the config file as an editor does.
func (n *node) configure(text string) {
	n.t.Helper()
	if err := errors.Join(os.WriteFile(n.path("c.new"), []byte(text), 0o600), os.Rename(n.path("c.new"), n.path("c.yaml"))); err != nil {
		n.t.Fatal(err)
	}
}

// start starts the agent, through another program when one is given.
func (n *node) start(through ...string) {
	n.t.Helper()
	n.until("end of the streams of before", func() bool {
		return !slices.ContainsFunc([]string{mig1g, mig2g, mig3g, mig7g}, n.Connected)
	})
	log, err := os.OpenFile(n.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	argv := slices.Concat(through, []string{
		binary, "run", "--api=device-plugin", "--hardware=nvml", "--driver-root=" + n.paths.Root, "--dev-root=" + n.paths.Dev,
		"--proc-root=" + n.paths.Proc, "--sys-root=" + n.paths.Sys, "--kubelet-dir=" + n.Dir, "--cdi-dir=" + n.path("cdi"),
		"--state-dir=" + n.path("state"), "--config=file:" + n.path("c.yaml"), "--apply-jitter=0s", "--poll=200ms", "--listen=",
	})
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a test that ends badly leaves no agent behind
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is killed
		close(ended)
	}()
	n.mu.Lock()
	n.agent, n.ended = cmd, ended
	n.mu.Unlock()
}

// kill ends the agent at once; safe from the driver's hooks.
func (n *node) kill() (pid int) {
	n.mu.Lock()
	agent, ended := n.agent, n.ended
	n.agent = nil
	n.mu.Unlock()
	if agent == nil {
		return 0
	}
	_ = agent.Process.Signal(syscall.SIGKILL) // it may be dead already
	<-ended
	return agent.Process.Pid
}

func (n *node) hasEnded() bool {
	n.mu.Lock()
	ended := n.ended
	n.mu.Unlock()
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

func (n *node) cut() string { return strings.TrimSpace(n.driver.Machine().Dump()) }

func (n *node) until(what string, done func() bool) {
	n.t.Helper()
	start, tick := time.Now(), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for !done() {
		if time.Since(start) > limit {
			log, _ := os.ReadFile(n.path("log"))
			n.t.Fatalf("%s: not within %v: %s\nfiles %q\nsockets that nobody serves %q\n%s",
				what, limit, n.cut(), n.files(), n.deadSockets(), log[max(0, len(log)-3000):])
		}
		<-tick.C
	}
}

// identity is what must not change of an instance that was right: GI id and UUID.
func (n *node) identity(gpu int, slot string) string {
	for _, i := range n.driver.Machine().GPUs()[gpu].Instances {
		if strings.TrimSuffix(i.Slot, "*") == slot {
			return fmt.Sprintf("gi %d %s", i.GI, i.UUID)
		}
	}
	return "gone"
}

// files lists what there is in the agent's folders, without the sockets.
func (n *node) files() []string {
	n.t.Helper()
	found := []string{}
	for _, folder := range []string{n.path("state"), n.path("cdi"), n.Dir} {
		err := filepath.WalkDir(folder, func(path string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() && e.Type()&os.ModeSocket == 0 {
				found = append(found, path)
			}
			return err
		})
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			n.t.Fatal(err)
		}
	}
	return found
}

// deadSockets lists sockets that nobody serves.
func (n *node) deadSockets() []string {
	n.t.Helper()
	all, err := filepath.Glob(filepath.Join(n.Dir, "device-plugins/*.sock"))
	if err != nil {
		n.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(path string) bool {
		c, err := (&net.Dialer{}).DialContext(n.t.Context(), "unix", path)
		return err == nil && c.Close() == nil
	})
}

// lastLine is the last word of the agent, or of who killed it.
func (n *node) lastLine() string {
	n.t.Helper()
	log, err := os.ReadFile(n.path("log"))
	if err != nil {
		n.t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return lines[len(lines)-1]
}
