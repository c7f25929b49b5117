// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package cdi_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/specs-go"

	"gpuslice/pkg/cdi"
)

// upgraded is a writer over a driver of one file, whose name and print the test sets.
type upgraded struct {
	*cdi.Writer
	t          *testing.T
	dir, files string
	library    string // what a discovery finds
	seen       string // the print
	fails      error
	found      int // discoveries
}

func newUpgraded(t *testing.T) *upgraded {
	t.Helper()
	u := &upgraded{t: t, dir: t.TempDir(), files: t.TempDir(), library: "1", seen: "a"}
	u.Writer = writer(t, u.dir, specs.ContainerEdits{})
	u.Common = func() (specs.ContainerEdits, error) {
		u.found++
		return specs.ContainerEdits{Mounts: []*specs.Mount{{HostPath: filepath.Join(u.files, u.library), ContainerPath: "/lib/x"}}}, u.fails
	}
	u.Print = func() string { return u.seen }
	u.install("1")
	return u
}

func (u *upgraded) install(name string) {
	u.t.Helper()
	if err := os.WriteFile(filepath.Join(u.files, name), nil, 0o600); err != nil {
		u.t.Fatal(err)
	}
}

func (u *upgraded) remove(name string) {
	u.t.Helper()
	if err := os.Remove(filepath.Join(u.files, name)); err != nil {
		u.t.Fatal(err)
	}
}

// look looks once; what says, it wants to have changed, and every spec to name this library then.
func (u *upgraded) look(changed bool, library string) {
	u.t.Helper()
	got, err := u.Follow()
	if err != nil || got != changed {
		u.t.Errorf("changed is %v, %v; want %v", got, err, changed)
	}
	u.named(library)
}

func (u *upgraded) named(library string) {
	u.t.Helper()
	for _, name := range []string{cdi.DevicePluginFile(), cdi.ClaimFile("u1")} {
		text, err := os.ReadFile(filepath.Join(u.dir, name+".json"))
		if err != nil || !strings.Contains(string(text), filepath.Join(u.files, library)+`"`) {
			u.t.Errorf("%s does not name %s: %v\n%s", name, library, err, text)
		}
	}
}

func (u *upgraded) publish() {
	u.t.Helper()
	gpu := resolve(u.t, u.Writer, cdi.Target{Names: []string{"GPU-a"}, Minor: 0, GI: -1, CI: -1})
	if err := errors.Join(u.WriteDevicePlugin(gpu), u.WriteClaim("u1", gpu)); err != nil {
		u.t.Fatal(err)
	}
}

// Specs follow the driver's files: after they have been left alone for a look, or at once when one that is published is gone. As
// long as nothing changes nothing is discovered.
func TestSpecsFollowTheDriver(t *testing.T) {
	u := newUpgraded(t)
	u.publish()
	u.look(true, "1") // those of an earlier process would follow now
	u.look(false, "1")
	before := u.found
	for range 10 {
		u.look(false, "1")
	}
	if u.found != before {
		t.Errorf("%d discoveries although nothing has changed", u.found-before)
	}
	u.install("2")
	u.library, u.seen = "2", "b"
	u.look(false, "1") // it may still go on
	u.seen = "c"
	u.look(false, "1")
	u.look(true, "2")
	u.remove("1")
	u.seen = "d"
	u.look(false, "2")
	u.look(false, "2")
	if u.found != before+2 {
		t.Errorf("%d discoveries in an upgrade, want one when the new files are there and one when the old are gone", u.found-before)
	}

	u.install("3")
	u.remove("2")
	u.library, u.seen = "3", "e"
	u.look(true, "3") // nobody waits while a spec names what is not there
}

// A discovery that fails leaves what was published, is tried again with every look, and says why until it succeeds.
func TestFailedDiscoveryKeepsTheSpecs(t *testing.T) {
	u := newUpgraded(t)
	u.publish()
	u.look(true, "1")
	u.look(false, "1")
	u.seen, u.fails = "b", errors.New("libcuda is missing")
	u.look(false, "1")
	for range 2 {
		if changed, err := u.Follow(); changed || err == nil || !strings.Contains(err.Error(), "libcuda is missing") {
			t.Errorf("%v, %v", changed, err)
		}
		u.named("1")
		u.publish() // the old files are all there, so devices can be given out
	}
	u.remove("1")
	if err := u.WriteDevicePlugin(resolve(t, u.Writer, cdi.Target{Names: []string{"GPU-a"}, GI: -1, CI: -1})); err == nil {
		t.Error("a device is announced whose files are gone")
	}
	u.install("2")
	u.fails, u.library, u.seen = nil, "2", "c"
	u.look(true, "2")
}

// What was discovered for a spec that is written between two looks reaches all others at the next look.
func TestWriteBetweenLooks(t *testing.T) {
	u := newUpgraded(t)
	u.publish()
	u.look(true, "1")
	u.look(false, "1")
	u.install("2")
	u.remove("1")
	u.library, u.seen = "2", "b"
	if err := u.WriteDevicePlugin(resolve(t, u.Writer, cdi.Target{Names: []string{"GPU-a"}, GI: -1, CI: -1})); err != nil {
		t.Fatal(err)
	}
	u.look(true, "2")
}

// Specs that an earlier process wrote follow too; those of others are left alone.
func TestSpecsOfAnEarlierProcessFollow(t *testing.T) {
	u := newUpgraded(t)
	u.publish()
	foreign := filepath.Join(u.dir, "k8s.gpu.nvidia.com-claim_other.json")
	text := `{"cdiVersion":"0.5.0","kind":"k8s.gpu.nvidia.com/claim","devices":[{"name":"other-gpu-0","containerEdits":{"env":["A=b"]}}]}`
	if err := os.WriteFile(foreign, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	u.install("2")
	u.remove("1")
	next := newUpgraded(t)
	next.Files, next.dir, next.files, next.library = u.Files, u.dir, u.files, "2"
	next.look(true, "2")
	if now, err := os.ReadFile(foreign); err != nil || string(now) != text {
		t.Errorf("a spec of another was changed: %s, %v", now, err)
	}
}

// P3: while something stands in the directory that must not be read, specs of an earlier process wait and are not forgotten.
func TestSpecsFollowOnceTheyCanBeRead(t *testing.T) {
	u := newUpgraded(t)
	u.publish()
	u.install("2")
	u.remove("1")
	next := newUpgraded(t)
	next.Files, next.dir, next.files, next.library = u.Files, u.dir, u.files, "2"
	pipe := filepath.Join(u.dir, "pipe.json")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if changed, err := next.Follow(); changed || err == nil || !strings.Contains(err.Error(), "pipe.json") {
		t.Errorf("beside a pipe: changed %v, %v", changed, err)
	}
	if err := os.Remove(pipe); err != nil {
		t.Fatal(err)
	}
	next.look(true, "2")
}

// A directory that cannot be written is said with its path, and found to be healed by the next question or write.
func TestUnusableDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cdi")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w := writer(t, dir, specs.ContainerEdits{})
	gpu := resolve(t, w, cdi.Target{Names: []string{"GPU-a"}, GI: -1, CI: -1})
	for _, err := range []error{w.Files.Unusable(), w.WriteDevicePlugin(gpu), w.WriteClaim("u1", gpu)} {
		if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "not a directory") {
			t.Errorf("a file in the directory's place: %v", err)
		}
	}
	if err := errors.Join(w.RemoveClaim("u1"), w.WriteDevicePlugin(nil)); err != nil {
		t.Errorf("what is not there cannot be removed: %v", err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Files.Unusable(), w.WriteDevicePlugin(gpu)); err != nil {
		t.Errorf("after it was healed: %v", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteDevicePlugin(gpu); err != nil {
		t.Errorf("a directory that somebody removed is made again: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// Nodes that every container needs are ours: the first is required, the others are there when their kernel module is.
func TestControlNodes(t *testing.T) {
	r := cdi.Roots{Dev: t.TempDir()}
	if _, err := r.Control(); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "nvidiactl") {
		t.Errorf("without nvidiactl: %v", err)
	}
	absent := r.Print()
	character(t, r.Dev, "nvidiactl", 255)
	some := r.Print()
	nodes, err := r.Control()
	if err != nil || len(nodes) != 1 || nodes[0].Path != "/dev/nvidiactl" || nodes[0].Major != 195 || nodes[0].Minor != 255 {
		t.Errorf("%+v, %v", nodes, err)
	}
	character(t, r.Dev, "nvidia-uvm", 0)
	if nodes, err := r.Control(); err != nil || len(nodes) != 2 {
		t.Errorf("%+v, %v", nodes, err)
	}
	if absent == some || some == r.Print() {
		t.Error("the print does not change with the nodes")
	}
	if err := os.WriteFile(filepath.Join(r.Dev, "dev/nvidia-modeset"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Control(); err == nil || !strings.Contains(err.Error(), "nvidia-modeset is not a character device") {
		t.Errorf("a file in a node's place: %v", err)
	}
}
