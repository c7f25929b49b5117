// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package layouts_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuslice/test/kubelet/kubelettest"
	"gpuslice/test/simdriver/daemon"
	"gpuslice/test/simdriver/driverroot"
)

// soon is ten times what a pass may take on a busy machine.
const soon = 30 * time.Second

const machine = `
driver: {version: 535.161.08}
gpus: [{model: l40s}, {model: h100-sxm5-80gb, instances: [3g.40gb@4]}]
`

const specFile = "k8s.device-plugin.nvidia.com-gpu.json"

// node is hardware, files and a kubelet around a running agent.
type node struct {
	*kubelettest.Kubelet
	t      *testing.T
	driver *daemon.Daemon
	paths  driverroot.Paths
	dir    string
	cdiDir string
	listen string
	agent  *exec.Cmd
}

// newNode installs a driver at a root.
func newNode(t *testing.T, root string, layout driverroot.Layout) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "n") // socket paths are limited to 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	hardware, err := daemon.LoadYAML([]byte(machine))
	if err != nil {
		t.Fatal(err)
	}
	n := &node{Kubelet: kubelettest.Start(t), t: t, dir: dir, cdiDir: filepath.Join(dir, "cdi"), paths: driverroot.Paths{
		Root: filepath.Join(dir, root), Dev: filepath.Join(dir, root), Proc: filepath.Join(dir, "host/proc"), Sys: filepath.Join(dir, "host/sys"),
		Layout: layout, Major: 242, // other tests simulate drivers at the same time
	}}
	if n.driver, err = daemon.Start(daemon.Options{Node: hardware, Paths: n.paths, Artifacts: built.Driver}); err != nil {
		t.Fatal(err)
	}
	n.Record()
	t.Cleanup(func() {
		n.kill()
		if err := errors.Join(n.driver.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return n
}

func (n *node) start(flags ...string) {
	n.t.Helper()
	free, err := (&net.ListenConfig{}).Listen(n.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	n.listen = free.Addr().String()
	log, err := os.OpenFile(filepath.Join(n.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err = errors.Join(err, free.Close()); err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	args := []string{
		"run", "--api=device-plugin", "--hardware=nvml",
		"--driver-root=" + n.paths.Root, "--dev-root=" + n.paths.Dev, "--proc-root=" + n.paths.Proc, "--sys-root=" + n.paths.Sys,
		"--kubelet-dir=" + n.Dir, "--cdi-dir=" + n.cdiDir, "--state-dir=" + filepath.Join(n.dir, "state"),
		"--apply-jitter=0s", "--poll=1s", "--listen=" + n.listen, "--nvidia-cdi-hook=/bin/true", "-v=2",
	}
	n.agent = exec.Command(filepath.Join(built.Bin, "gpu-plugin"), append(args, flags...)...)
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

func (n *node) log() string {
	text, _ := os.ReadFile(filepath.Join(n.dir, "log"))
	return string(text)
}

func (n *node) until(what string, probe func() error) {
	n.t.Helper()
	start, tick := time.Now(), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for err := probe(); err != nil; err = probe() {
		if time.Since(start) > soon {
			log := n.log()
			n.t.Fatalf("%s: not within %v: %v\n%s", what, soon, err, log[max(0, len(log)-6000):])
		}
		<-tick.C
	}
	n.t.Logf("%s after %v", what, time.Since(start).Round(10*time.Millisecond))
}

// healthy waits until the kubelet has so many healthy devices, of so many listed.
func (n *node) healthy(healthy, listed int) {
	n.t.Helper()
	n.until(fmt.Sprintf("%d of %d devices healthy", healthy, listed), func() error {
		h, l := 0, 0
		for _, resource := range []string{"nvidia.com/gpu", "nvidia.com/mig-3g.40gb"} {
			h, l = h+n.Healthy(resource), l+len(n.Devices(resource))
		}
		if h != healthy || l != listed {
			return fmt.Errorf("%d of %d", h, l)
		}
		return nil
	})
}

// problem waits for a problem that says all of this, and returns its message.
func (n *node) problem(reason string, says ...string) (message string) {
	n.t.Helper()
	n.until("problem "+reason, func() error {
		status, err := n.status()
		for _, p := range status.Problems {
			missing := func() string {
				for _, word := range says {
					if !strings.Contains(p.Message, word) {
						return word
					}
				}
				return ""
			}()
			if p.Reason == reason && missing == "" {
				message = p.Message
				return nil
			}
			err = errors.Join(err, fmt.Errorf("%s: %s (no %q)", p.Reason, p.Message, missing))
		}
		return errors.Join(err, errors.New("not there"))
	})
	return message
}

// silence waits until the agent has no problem.
func (n *node) silence() {
	n.t.Helper()
	n.until("no problem", func() error {
		status, err := n.status()
		if err == nil && len(status.Problems) > 0 {
			err = fmt.Errorf("%+v", status.Problems)
		}
		return err
	})
}

type status struct {
	Problems []struct{ Reason, Message string }
}

func (n *node) status() (s status, err error) {
	request, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, "http://"+n.listen+"/status", nil)
	if err != nil {
		return s, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return s, err
	}
	defer response.Body.Close()
	return s, json.NewDecoder(response.Body).Decode(&s)
}
