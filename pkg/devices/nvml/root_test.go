// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build cgo

package nvml_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/nvml"
)

// tree makes a driver root: a name that ends in "/" is a folder, "a -> b" a link, everything else a file.
func tree(t *testing.T, names ...string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		name, target, isLink := strings.Cut(name, " -> ")
		path := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		switch {
		case isLink:
			err = errors.Join(err, os.Symlink(target, path))
		case strings.HasSuffix(name, "/"):
			err = errors.Join(err, os.MkdirAll(path, 0o755))
		default:
			err = errors.Join(err, os.WriteFile(path, nil, 0o755))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// whole is an installation in usr/lib64.
func whole(version string, more ...string) []string {
	names := []string{}
	for _, base := range []string{"libnvidia-ml", "libcuda", "libnvidia-ptxjitcompiler"} {
		names = append(names, "usr/lib64/"+base+".so."+version, "usr/lib64/"+base+".so.1 -> "+base+".so."+version)
	}
	return append(names, more...)
}

func mounts(t *testing.T, root string) (map[string]string, error) {
	t.Helper()
	edits, err := nvml.CommonEdits(nvml.EditsOptions{DriverRoot: root})
	found := map[string]string{}
	for _, m := range edits.Mounts {
		if strings.HasPrefix(m.HostPath, "/dev/") {
			continue
		}
		found[m.ContainerPath] = strings.TrimPrefix(m.HostPath, root)
	}
	return found, err
}

// C03: links of a driver root mean what they mean in it. Those that are absolute would lead to the host's files, which are others:
// this machine has a /usr/bin and a /usr/lib too.
func TestLinksStayInTheRoot(t *testing.T) {
	const v = "535.161.08"
	libraries := map[string]string{}
	for _, base := range []string{"libnvidia-ml", "libcuda", "libnvidia-ptxjitcompiler"} {
		path := "/usr/lib64/" + base + ".so." + v
		libraries[path] = path
	}
	with := func(container, host string) map[string]string {
		all := maps.Clone(libraries)
		all[container] = host
		return all
	}
	for _, tt := range []struct {
		name string
		root []string
		want map[string]string
	}{
		{"none", whole(v, "usr/bin/nvidia-smi"), with("/usr/bin/nvidia-smi", "/usr/bin/nvidia-smi")},
		{"lib64 is a link", whole(v, "lib64 -> usr/lib64"), libraries},
		{"lib64 is an absolute link", whole(v, "lib64 -> /usr/lib64"), libraries},
		{
			"firmware behind an absolute link", whole(v, "lib -> /usr/lib", "usr/lib/firmware/nvidia/"+v+"/gsp_ga10x.bin"),
			with("/lib/firmware/nvidia/"+v+"/gsp_ga10x.bin", "/usr/lib/firmware/nvidia/"+v+"/gsp_ga10x.bin"),
		},
		{"program behind a link", whole(v, "bin -> /opt/bin", "opt/bin/nvidia-smi"), with("/bin/nvidia-smi", "/opt/bin/nvidia-smi")},
		{"a folder behind a link out of the root", whole(v, "usr/bin -> ../../../../../../usr/bin"), libraries},
		{"socket behind an absolute link", whole(v, "var/run -> /run", "run/nvidia-persistenced/socket"), with("/run/nvidia-persistenced/socket", "/run/nvidia-persistenced/socket")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := mounts(t, tree(t, tt.root...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("mounts (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := os.Stat("/usr/bin/env"); err != nil {
		t.Errorf("this process has left its root: %v", err)
	}
}

// A root that is a link itself is the folder behind it.
func TestRootIsALink(t *testing.T) {
	root := tree(t, whole("535.161.08")...)
	link := filepath.Join(t.TempDir(), "driver")
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	edits, err := nvml.CommonEdits(nvml.EditsOptions{DriverRoot: link})
	if err != nil || !slices.ContainsFunc(edits.Env, func(e string) bool { return e == "NVIDIA_CTK_LIBCUDA_DIR=/usr/lib64" }) {
		t.Errorf("%v, %v", edits.Env, err)
	}
	for _, m := range edits.Mounts {
		if _, err := os.Stat(m.HostPath); err != nil {
			t.Error(err)
		}
	}
}

// C01: what is not there is named with every path that was tried, and what is there by half is not taken for a driver.
func TestInstalled(t *testing.T) {
	for _, tt := range []struct {
		name string
		root []string
		says []string
		code error
	}{
		{"nothing", nil, []string{"libnvidia-ml.so.1", "/usr/lib64/libnvidia-ml.so.1", "/lib/aarch64-linux-gnu/libnvidia-ml.so.1", "--driver-root="}, devices.ErrLibraryNotFound},
		{"no compute library", []string{"usr/lib64/libnvidia-ml.so.1"}, []string{"libcuda.so.1", "/usr/lib64/libcuda.so.1", "/lib64/libcuda.so.1"}, devices.ErrLibraryNotFound},
		{"link to nothing", whole("535.1.2", "lib64/")[1:], []string{"libnvidia-ml.so.1 is not installed"}, devices.ErrLibraryNotFound},
		{
			"two versions", []string{
				"usr/lib64/libnvidia-ml.so.535.2.0", "usr/lib64/libnvidia-ml.so.1 -> libnvidia-ml.so.535.2.0",
				"usr/lib64/libcuda.so.535.1.0", "usr/lib64/libcuda.so.1 -> libcuda.so.535.1.0",
			}, []string{"half installed", "libnvidia-ml.so.1 is of version 535.2.0", "libcuda.so.1 of 535.1.0"}, nil,
		},
		{"links in a circle", []string{"usr/lib64 -> /lib64", "lib64 -> /usr/lib64"}, []string{"libnvidia-ml.so.1 is not installed"}, devices.ErrLibraryNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := mounts(t, tree(t, tt.root...))
			if err == nil || tt.code != nil && !errors.Is(err, tt.code) {
				t.Fatalf("%v, want %v", err, tt.code)
			}
			for _, word := range tt.says {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q is not in %v", word, err)
				}
			}
		})
	}
	err := nvml.New(nvml.Options{DriverRoot: tree(t)}).Init()
	if !errors.Is(err, devices.ErrLibraryNotFound) || !strings.Contains(err.Error(), "the path of the loader") {
		t.Errorf("a session without a library: %v", err)
	}
}

// The print changes with every step of an installation, and with nothing else.
func TestPrint(t *testing.T) {
	root := tree(t, whole("535.1.0", "lib64 -> /usr/lib64", "usr/bin/", "srv/", "lib/firmware/nvidia/535.1.0/", "usr/lib64/vdpau/", "usr/share/nvidia/")...)
	last := nvml.Print(root)
	for _, tt := range []struct {
		name    string
		step    func() error
		changes bool
	}{
		{"nothing", func() error { return nil }, false},
		{"a file elsewhere", func() error { return os.WriteFile(filepath.Join(root, "srv/x"), nil, 0o600) }, false},
		{"a library more", func() error { return os.WriteFile(filepath.Join(root, "usr/lib64/libcuda.so.535.2.0"), nil, 0o600) }, true},
		{"firmware in a folder that is there", func() error {
			return os.WriteFile(filepath.Join(root, "lib/firmware/nvidia/535.1.0/gsp.bin"), nil, 0o600)
		}, true},
		{"a library in a folder beside them", func() error {
			return os.WriteFile(filepath.Join(root, "usr/lib64/vdpau/libvdpau_nvidia.so.535.1.0"), nil, 0o600)
		}, true},
		{"a profile", func() error { return os.WriteFile(filepath.Join(root, "usr/share/nvidia/profiles"), nil, 0o600) }, true},
		{"a link is switched", func() error {
			path := filepath.Join(root, "usr/lib64/libcuda.so.1")
			return errors.Join(os.Symlink("libcuda.so.535.2.0", path+".new"), os.Rename(path+".new", path))
		}, true},
		{"a library less", func() error { return os.Remove(filepath.Join(root, "usr/lib64/libcuda.so.535.1.0")) }, true},
		{"a program more", func() error { return os.WriteFile(filepath.Join(root, "usr/bin/nvidia-smi"), nil, 0o700) }, true},
		{"the socket appears", func() error {
			return errors.Join(os.MkdirAll(filepath.Join(root, "run/nvidia-persistenced"), 0o755), os.WriteFile(filepath.Join(root, "run/nvidia-persistenced/socket"), nil, 0o600))
		}, true},
		{"everything is gone", func() error { return os.RemoveAll(filepath.Join(root, "usr")) }, true},
	} {
		if err := tt.step(); err != nil {
			t.Fatal(err)
		}
		now := nvml.Print(root)
		if (now != last) != tt.changes {
			t.Errorf("%s: changed is %v", tt.name, now != last)
		}
		last = now
	}
}
