// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package limits_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/specs-go"

	"gpuslice/test/kubelet/kubelettest"
	"gpuslice/test/simdriver/daemon"
	"gpuslice/test/simdriver/driverroot"
)

// soon is ten times what a pass may take on a busy machine.
const soon = 20 * time.Second

// machine has 46000 MiB for processes on each GPU: an L40S of 46068.
const machine = "driver: {version: %s}\ngpus: [{model: l40s, count: 2, reservedMiB: 68}]\n"

const config = "apiVersion: gpuslice.dev/v1alpha1\nkind: SharingConfig\nlayouts: {it: {timeSlicing: %s}}\nnodes: [{gpus: [{layout: it}]}]\n"

// quarters are shares of 11500 MiB.
const quarters = "{replicas: 4, rename: true, memory: share}"

const shared = "nvidia.com/gpu.shared"

// node is hardware, files, cgroups and a kubelet around a running agent.
type node struct {
	*kubelettest.Kubelet
	t       *testing.T
	driver  *daemon.Daemon
	paths   driverroot.Paths
	dir     string
	cgroups string // where the hierarchy is mounted
	listen  string
	agent   *exec.Cmd
	started int // processes, for their names
}

// newNode mounts a hierarchy of the given kind where the agent looks for cgroups.
func newNode(t *testing.T, version, hierarchy string) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "n") // socket paths are limited to 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	hardware, err := daemon.LoadYAML(fmt.Appendf(nil, machine, version))
	if err != nil {
		t.Fatal(err)
	}
	n := &node{Kubelet: kubelettest.Start(t), t: t, dir: dir, paths: driverroot.Under(filepath.Join(dir, "r"))}
	n.paths.Major = 241 // other tests simulate drivers at the same time
	if n.driver, err = daemon.Start(daemon.Options{Node: hardware, Paths: n.paths, Artifacts: built.Driver}); err != nil {
		t.Fatal(err)
	}
	n.cgroups = filepath.Join(n.paths.Sys, "fs/cgroup")
	if err := errors.Join(os.MkdirAll(n.cgroups, 0o755), unix.Mount(hierarchy, n.cgroups, hierarchy, 0, "")); err != nil {
		t.Fatal(err)
	}
	n.Record()
	t.Cleanup(func() {
		n.kill()
		if err := errors.Join(n.driver.Close(), unix.Unmount(n.cgroups, 0), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return n
}

func (n *node) path(name string) string { return filepath.Join(n.dir, name) }

func (n *node) configure(layout string) {
	n.t.Helper()
	text := fmt.Appendf(nil, config, layout)
	if err := errors.Join(os.WriteFile(n.path("c.new"), text, 0o600), os.Rename(n.path("c.new"), n.path("c.yaml"))); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) start() {
	n.t.Helper()
	n.until("end of the streams of before", func() bool { return !n.Connected(shared) })
	free, err := (&net.ListenConfig{}).Listen(n.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	n.listen = free.Addr().String()
	log, err := os.OpenFile(n.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err = errors.Join(err, free.Close()); err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	n.agent = exec.Command(filepath.Join(built.Bin, "gpu-plugin"), "run", "--api=device-plugin", "--hardware=nvml",
		"--driver-root="+n.paths.Root, "--dev-root="+n.paths.Dev, "--proc-root="+n.paths.Proc, "--sys-root="+n.paths.Sys,
		"--kubelet-dir="+n.Dir, "--cdi-dir="+n.path("cdi"), "--state-dir="+n.path("state"), "--config=file:"+n.path("c.yaml"),
		"--apply-jitter=0s", "--poll=200ms", "--listen="+n.listen, "--nvidia-cdi-hook=/bin/true", "-v=2")
	n.agent.Stdout, n.agent.Stderr = log, log
	n.agent.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := n.agent.Start(); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) kill() {
	if n.agent != nil {
		_ = n.agent.Process.Kill()
		_ = n.agent.Wait() // it was killed
		n.agent = nil
	}
}

func (n *node) until(what string, done func() bool) {
	n.t.Helper()
	start, tick := time.Now(), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for !done() {
		if time.Since(start) > soon {
			log, _ := os.ReadFile(n.path("log"))
			n.t.Fatalf("%s: not within %v; status %+v\n%s", what, soon, n.status(), log[max(0, len(log)-4000):])
		}
		<-tick.C
	}
}

// status is the part of /status that is about limits.
type status struct {
	MemoryLimit string
	Problems    []struct{ Reason, Message string }
}

func (n *node) status() (s status) {
	n.t.Helper()
	request, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, "http://"+n.listen+"/status", nil)
	if err != nil {
		n.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return s // it starts, or is dead
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&s); err != nil {
		n.t.Fatal(err)
	}
	return s
}

// spec is what a runtime reads of the CDI folder.
func (n *node) spec() (s specs.Spec, text string) {
	n.t.Helper()
	content, err := os.ReadFile(n.path("cdi/k8s.device-plugin.nvidia.com-gpu.json"))
	if err = errors.Join(err, json.Unmarshal(content, &s)); err != nil {
		n.t.Fatal(err)
	}
	return s, string(content)
}

// hooks are those that the runtime runs for a device, beside those of every container.
func (n *node) hooks(uuid string) []*specs.Hook {
	n.t.Helper()
	s, _ := n.spec()
	i := slices.IndexFunc(s.Devices, func(d specs.Device) bool { return d.Name == uuid })
	if i < 0 {
		n.t.Fatalf("the spec has no device %s", uuid)
	}
	return s.Devices[i].ContainerEdits.Hooks
}

// container is a process in a cgroup of its own, as a runtime makes it before it runs hooks.
type container struct {
	id, podUID, cgroup string
	process            *exec.Cmd
}

func (n *node) container(podUID string) *container {
	n.t.Helper()
	n.started++
	c := &container{id: fmt.Sprintf("gpuslice-%d-%d", os.Getpid(), n.started), podUID: podUID, process: exec.Command("sleep", "600")}
	c.cgroup = filepath.Join(n.cgroups, c.id)
	if err := os.Mkdir(c.cgroup, 0o755); err != nil {
		n.t.Fatal(err)
	}
	c.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.process.Start(); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.cgroup, "cgroup.procs"), []byte(strconv.Itoa(c.process.Process.Pid)), 0o600); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { n.end(c) })
	return c
}

// end ends a container as a runtime does: its process, then its cgroup.
func (n *node) end(c *container) {
	n.t.Helper()
	if c.process.ProcessState != nil {
		return
	}
	_ = c.process.Process.Kill()
	_ = c.process.Wait() // it was killed
	n.until("removal of "+c.cgroup, func() bool {
		err := os.Remove(c.cgroup)
		return err == nil || errors.Is(err, os.ErrNotExist)
	})
}

// state is what a runtime hands over on standard input.
func (c *container) state() string {
	text, _ := json.Marshal(map[string]any{ // it is made of text and a number
		"ociVersion": "1.2.0", "id": c.id, "status": "creating", "pid": c.process.Process.Pid, "bundle": "/none",
		"annotations": map[string]string{"io.kubernetes.cri.sandbox-uid": c.podUID, "io.kubernetes.cri.container-name": "main"},
	})
	return string(text)
}

// run runs a hook for a container, as a user; it returns what the runtime would say.
func (n *node) run(h *specs.Hook, c *container, uid uint32) (text string, err error) {
	n.t.Helper()
	cmd := exec.CommandContext(n.t.Context(), h.Path, h.Args[1:]...)
	cmd.Args[0] = h.Args[0]
	cmd.Stdin = strings.NewReader(c.state())
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// limits are what the driver holds containers to on a GPU: MiB by name of the cgroup.
func (n *node) limits(gpu int) map[string]uint64 {
	n.t.Helper()
	list, err := n.driver.Machine().MemoryLimits(gpu)
	if err != nil {
		n.t.Fatal(err)
	}
	found := map[string]uint64{}
	for _, l := range list {
		if l.Soft != 0 {
			n.t.Errorf("soft limit of %s is %d", l.Cgroup, l.Soft)
		}
		found[filepath.Base(l.Cgroup)] = l.Hard >> 20
	}
	return found
}

// kept lists the limits on disk.
func (n *node) kept() []string {
	n.t.Helper()
	files, err := filepath.Glob(n.path("state/limits/*"))
	if err != nil {
		n.t.Fatal(err)
	}
	return files
}
