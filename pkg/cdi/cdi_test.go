// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package cdi_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/specs-go"

	"gpuslice/pkg/cdi"
)

func writer(t *testing.T, dir string, common specs.ContainerEdits) *cdi.Writer {
	t.Helper()
	files := cdi.NewFiles(dir)
	return &cdi.Writer{Files: files, Nodes: cdi.Computed{}, Owner: "n1", Common: func() (specs.ContainerEdits, error) { return common, nil }}
}

func resolve(t *testing.T, w *cdi.Writer, targets ...cdi.Target) []cdi.Device {
	t.Helper()
	list := []cdi.Device{}
	for _, x := range targets {
		d, err := w.Resolve(x)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, d)
	}
	return list
}

// K08: every node carries major and minor; P12: nothing else is made visible. The numbers are those of the kernel module's
// rule, typed from it: gpu 1, gi 2, ci 0 has capabilities 3+135+18 = 156 and 157.
func TestSpec(t *testing.T) {
	w := writer(t, t.TempDir(), specs.ContainerEdits{})
	list := resolve(t, w, cdi.Target{Names: []string{"GPU-a", "0"}, Minor: 0, GI: -1, CI: -1}, cdi.Target{Names: []string{"MIG-b"}, Minor: 1, GI: 2, CI: 0})
	spec, err := cdi.Spec(cdi.DevicePluginKind, "n1", list, "all", specs.ContainerEdits{})
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[string][]string{}
	for _, d := range spec.Devices {
		for _, n := range d.ContainerEdits.DeviceNodes {
			if n.Type != "c" || n.Major == 0 || n.Permissions != "rw" {
				t.Errorf("%s: node %+v", d.Name, n)
			}
			nodes[d.Name] = append(nodes[d.Name], n.Path)
		}
	}
	want := map[string][]string{
		"GPU-a": {"/dev/nvidia0"},
		"0":     {"/dev/nvidia0"},
		"MIG-b": {"/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap156", "/dev/nvidia-caps/nvidia-cap157"},
		"all":   {"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap156", "/dev/nvidia-caps/nvidia-cap157"},
	}
	if diff := cmp.Diff(want, nodes); diff != "" {
		t.Error(diff)
	}
	if !slices.Contains(spec.ContainerEdits.Env, "NVIDIA_VISIBLE_DEVICES=void") {
		t.Errorf("environment %v does not keep older injection out", spec.ContainerEdits.Env)
	}
	if _, err := cdi.Spec(cdi.DevicePluginKind, "n1", []cdi.Device{{Names: []string{"GPU-x"}}}, "", specs.ContainerEdits{}); err == nil {
		t.Error("a device without nodes is accepted: the container would see nothing and nobody would say so")
	}
}

func TestFilesAreReadBackAndOnlyOursRemoved(t *testing.T) {
	dir := t.TempDir()
	w := writer(t, dir, specs.ContainerEdits{})
	foreign := filepath.Join(dir, "k8s.gpu.nvidia.com-claim_other.json")
	text := `{"cdiVersion":"0.5.0","kind":"k8s.gpu.nvidia.com/claim","devices":[{"name":"other-gpu-0","containerEdits":{"env":["A=b"]}}]}`
	if err := os.WriteFile(foreign, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "garbage.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	gpu := resolve(t, w, cdi.Target{Names: []string{cdi.ClaimDevice("u1", "gpu-0")}, Minor: 0, GI: -1, CI: -1})
	for range 2 {
		if err := w.WriteClaim("u1", gpu); err != nil {
			t.Fatal(err)
		}
	}
	uids, err := w.Files.Claims()
	if diff := cmp.Diff([]string{"u1"}, uids); err != nil || diff != "" {
		t.Errorf("ours are %v, %v: a file without our annotation is another's", uids, err)
	}
	if err := errors.Join(w.Files.Remove(cdi.ClaimFile("u1")), w.Files.Remove(cdi.ClaimFile("u1"))); err != nil {
		t.Errorf("remove, also twice: %v", err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error(err)
	}
}

// A spec that says the same is not written again, unless its file is gone or was changed.
func TestSameSpecIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	w := writer(t, dir, specs.ContainerEdits{})
	path := filepath.Join(dir, cdi.DevicePluginFile()+".json")
	gpu := resolve(t, w, cdi.Target{Names: []string{"GPU-a"}, Minor: 0, GI: -1, CI: -1})
	write := func() os.FileInfo {
		t.Helper()
		if err := w.WriteDevicePlugin(gpu); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := write()
	if !os.SameFile(first, write()) {
		t.Error("the same spec is another file")
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for why, harm := range map[string]func() error{
		"removed":     func() error { return os.Remove(path) },
		"overwritten": func() error { return os.WriteFile(path, []byte("{}"), 0o600) },
	} {
		if err := harm(); err != nil {
			t.Fatal(err)
		}
		write()
		if text, err := os.ReadFile(path); err != nil || !bytes.Equal(text, good) {
			t.Errorf("%s: %s, %v", why, text, err)
		}
	}
}

// A file that claims a device of ours makes the library find neither. It is noticed although our own file is as it was, and so is
// its end; while nothing came or went, nothing is read again.
func TestAnotherFileClaimsOurDevice(t *testing.T) {
	dir := t.TempDir()
	w := writer(t, dir, specs.ContainerEdits{})
	gpu := resolve(t, w, cdi.Target{Names: []string{"GPU-a"}, Minor: 0, GI: -1, CI: -1})
	write := func(step string, found bool) {
		t.Helper()
		if err := w.WriteDevicePlugin(gpu); (err == nil) != found {
			t.Errorf("%s: %v", step, err)
		}
	}
	write("the first time", true)
	hourAgo := time.Now().Add(-time.Hour)
	if err := os.Chtimes(dir, hourAgo, hourAgo); err != nil {
		t.Fatal(err)
	}
	write("found in a directory that is old", true)
	other := filepath.Join(dir, "other.json")
	text, err := os.ReadFile(filepath.Join(dir, cdi.DevicePluginFile()+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, text, 0o600); err != nil {
		t.Fatal(err)
	}
	write("beside another file", false)
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	write("alone again", true)
}

// P3: what the CDI library would wait for, or read without end, is named and not read; our own file is put in its place.
func TestOddFilesInTheDirectory(t *testing.T) {
	gpu := cdi.Target{Names: []string{"GPU-a"}, Minor: 0, GI: -1, CI: -1}
	own := cdi.DevicePluginFile() + ".json"
	pipe := func(path string) error { return unix.Mkfifo(path, 0o600) }
	for _, tc := range []struct {
		why, name string
		make      func(path string) error
		good      bool
	}{
		{"a pipe that is called like a spec", "other.json", pipe, false},
		{"a pipe that is called otherwise", "other", pipe, true},
		{"a link to a device without end", "zero.yaml", func(path string) error { return os.Symlink("/dev/zero", path) }, false},
		{"a file of a terabyte", "huge.yaml", func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40))
		}, false},
		{"a folder", "folder.json", func(path string) error { return os.Mkdir(path, 0o700) }, true},
		{"a link to nowhere", "gone.json", func(path string) error { return os.Symlink("nowhere", path) }, true},
		{"a pipe in the place of ours", own, pipe, true},
		{"a link to a device in the place of ours", own, func(path string) error { return os.Symlink("/dev/zero", path) }, true},
	} {
		t.Run(tc.why, func(t *testing.T) {
			dir := t.TempDir()
			if err := tc.make(filepath.Join(dir, tc.name)); err != nil {
				t.Fatal(err)
			}
			w := writer(t, dir, specs.ContainerEdits{})
			err := w.WriteDevicePlugin(resolve(t, w, gpu))
			if (err == nil) != tc.good || err != nil && !strings.Contains(err.Error(), tc.name) {
				t.Errorf("written: %v", err)
			}
			if _, err := w.Claims(); (err == nil) != tc.good {
				t.Errorf("claims: %v", err)
			}
			if err := w.Files.Unusable(); (err == nil) != tc.good {
				t.Errorf("the directory: %v", err)
			}
			if err := os.RemoveAll(filepath.Join(dir, tc.name)); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(w.Files.Unusable(), w.WriteDevicePlugin(resolve(t, w, gpu))); err != nil {
				t.Errorf("after its removal: %v", err)
			}
		})
	}
}

// D10: files of the driver that vanish are discovered anew; a spec never names what is not there.
func TestCommonEditsFollowTheDriver(t *testing.T) {
	dir, lib := t.TempDir(), t.TempDir()
	old, next := filepath.Join(lib, "libcuda.so.1"), filepath.Join(lib, "libcuda.so.2")
	current := old
	w := writer(t, dir, specs.ContainerEdits{})
	discovered := 0
	w.Common = func() (specs.ContainerEdits, error) {
		discovered++
		return specs.ContainerEdits{Mounts: []*specs.Mount{{HostPath: current, ContainerPath: "/usr/lib/libcuda.so"}}}, nil
	}
	gpu := resolve(t, w, cdi.Target{Names: []string{"GPU-a"}, Minor: 0, GI: -1, CI: -1})
	if err := w.WriteDevicePlugin(gpu); err == nil || !strings.Contains(err.Error(), old) {
		t.Errorf("a library that is not there: %v", err)
	}
	write := func(path string) {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(old)
	for range 3 {
		if err := w.WriteDevicePlugin(gpu); err != nil {
			t.Fatal(err)
		}
	}
	if discovered != 2 {
		t.Errorf("discovered %d times, want once after the failure", discovered)
	}
	if err := os.Remove(old); err != nil {
		t.Fatal(err)
	}
	write(next)
	current = next
	if err := w.WriteDevicePlugin(gpu); err != nil {
		t.Errorf("after an upgrade of the driver: %v", err)
	}
}

func TestRoots(t *testing.T) {
	dev, proc := t.TempDir(), t.TempDir()
	put := func(path, text string) {
		path = filepath.Join(proc, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	put("devices", "Character devices:\n195 nvidia\n237 nvidia-caps\n\nBlock devices:\n")
	put("driver/nvidia/capabilities/gpu0/mig/gi2/access", "DeviceFileMinor: 21\nDeviceFileMode: 292\n")
	put("driver/nvidia/capabilities/gpu0/mig/gi2/ci0/access", "DeviceFileMinor: 22\n")
	put("driver/nvidia/capabilities/gpu0/mig/gi3/access", "DeviceFileMinor: x\n")
	r := cdi.Roots{Dev: dev, Proc: proc}
	got, err := r.Instance(0, 2, 0)
	want := []cdi.Node{{Path: "/dev/nvidia-caps/nvidia-cap21", Major: 237, Minor: 21}, {Path: "/dev/nvidia-caps/nvidia-cap22", Major: 237, Minor: 22}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if _, err := r.Instance(0, 3, 0); err == nil || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("garbage: %v", err)
	}
	if _, err := r.Instance(0, 9, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such instance: %v", err)
	}
	if _, err := r.GPU(0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing node is an error, never dropped: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(dev, "dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	node := filepath.Join(dev, "dev/nvidia0")
	if err := os.WriteFile(node, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.GPU(0); err == nil || !strings.Contains(err.Error(), "not a character device") {
		t.Errorf("a file in the node's place: %v", err)
	}
	if err := os.Remove(node); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mknod(node, unix.S_IFCHR|0o666, int(unix.Mkdev(195, 0))); err != nil {
		t.Fatal(err) // tests run as root
	}
	if n, err := r.GPU(0); err != nil || n != (cdi.Node{Path: "/dev/nvidia0", HostPath: node, Major: 195}) {
		t.Errorf("%+v, %v", n, err)
	}
}

// The hook of a device is run when a container gets that device, not with others, and never with "all"; one that is not there
// fails that device and no other.
func TestHookOfADevice(t *testing.T) {
	program := filepath.Join(t.TempDir(), "hook")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	w := writer(t, t.TempDir(), specs.ContainerEdits{})
	bounded := cdi.Target{Names: []string{"GPU-a"}, Minor: 0, GI: -1, CI: -1, Hooks: []cdi.Hook{{Path: program, Args: []string{"hook", "GPU-a"}}}}
	list := resolve(t, w, bounded, cdi.Target{Names: []string{"GPU-b"}, Minor: 1, GI: -1, CI: -1})
	if err := w.WriteDevicePlugin(list); err != nil {
		t.Fatal(err)
	}
	spec, err := cdi.Spec(cdi.DevicePluginKind, "n1", list, "all", specs.ContainerEdits{})
	if err != nil {
		t.Fatal(err)
	}
	hooks := map[string][]string{}
	for _, d := range spec.Devices {
		for _, h := range d.ContainerEdits.Hooks {
			hooks[d.Name] = append(hooks[d.Name], h.HookName+" "+h.Path+" "+strings.Join(h.Args, " "))
			if h.Timeout == nil || *h.Timeout < 5 || *h.Timeout > 60 {
				t.Errorf("timeout of the hook is %v", h.Timeout)
			}
		}
	}
	if diff := cmp.Diff(map[string][]string{"GPU-a": {"createRuntime " + program + " hook GPU-a"}}, hooks); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
	bounded.Hooks[0].Path += "-gone"
	if _, err := w.Resolve(bounded); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a hook that is not there: %v", err)
	}
}

func character(t *testing.T, root, name string, minor uint32) {
	t.Helper()
	path := filepath.Join(root, "dev", name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(195, minor)))); err != nil {
		t.Fatal(err) // tests run as root
	}
}
