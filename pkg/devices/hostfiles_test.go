// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The kernel writes four digits of a domain, and more where they are needed; the driver always eight.
func TestBusIDs(t *testing.T) {
	for _, tc := range []struct{ name, driver, kernel string }{
		{"usual", "00000000:65:00.0", "0000:65:00.0"},
		{"DGX Spark", "0000000F:01:00.0", "000f:01:00.0"},
		{"Azure", "0000ABCD:00:00.0", "abcd:00:00.0"},
		{"Intel VMD", "00010000:E1:00.0", "10000:e1:00.0"},
		{"widest", "FEDCBA98:00:1F.7", "fedcba98:00:1f.7"},
	} {
		if short, long := shortBusID(tc.driver), longBusID(tc.kernel); short != tc.kernel || long != tc.driver {
			t.Errorf("%s: %s is %s, and %s is %s", tc.name, tc.driver, short, tc.kernel, long)
		}
		if !busIDPattern.MatchString(tc.kernel) {
			t.Errorf("%s: %s is no address", tc.name, tc.kernel)
		}
	}
	for _, id := range []string{"", "nonsense", ":::", "00000000:", "0"} {
		_, _ = shortBusID(id), longBusID(id) // whatever a driver says is no reason to end
	}
}

// What may be in the place of a file of /sys or /proc.
const (
	textFile = iota
	nothing
	folder
	broken
	loop
	endless
	pipe
	closed
	huge
	kindsOfFiles
)

// plant puts something in the place of a file.
func plant(t testing.TB, kind byte, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	_ = os.RemoveAll(path)
	var err error
	switch kind % kindsOfFiles {
	case textFile:
		err = os.WriteFile(path, []byte(text), 0o600)
	case nothing:
	case folder:
		err = os.Mkdir(path, 0o755)
	case broken:
		err = os.Symlink("nowhere", path)
	case loop:
		err = os.Symlink(filepath.Base(path), path)
	case endless:
		err = os.Symlink("/dev/zero", path)
	case pipe:
		err = syscall.Mkfifo(path, 0o600)
	case closed:
		err = os.WriteFile(path, []byte(text), 0)
	case huge:
		if err = os.WriteFile(path, []byte(text), 0o600); err == nil {
			err = os.Truncate(path, 1<<40) // of which the file system stores nothing
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// P3, P7: whatever is in /sys or /proc in the place of a file, and whatever address a driver makes up, nothing panics, everything
// ends soon, what is odd is unknown, and a GPU whose files are right is read.
func FuzzHostFiles(f *testing.F) {
	for kind := range byte(kindsOfFiles) {
		for i, text := range []string{"1\n", "-1\n", "99999999999999999999", "\x00\xff", "MemTotal:       131072 kB\n", "MemTotal: x kB\nMemTotal:\n", ""} {
			f.Add(kind, text, []string{"0000:65:00.0", "10000:e1:00.0", "../../../..", "", "0000:65:00.0/../x", "FFFF:0:0.0", "\x00"}[i])
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, text, pci string) {
		root := t.TempDir()
		files := HostFiles{Proc: filepath.Join(root, "proc"), Sys: filepath.Join(root, "sys")}
		const odd, good = "0000:65:00.0", "0001:00:00.0"
		plant(t, kind, filepath.Join(files.Sys, "bus/pci/devices", odd, "numa_node"), text)
		plant(t, textFile, filepath.Join(files.Sys, "bus/pci/devices", good, "numa_node"), "3\n")
		plant(t, kind, filepath.Join(files.Proc, "meminfo"), text)
		plant(t, kind, filepath.Join(files.Sys, "module/nvidia/holders/x"), text)
		plant(t, kind, filepath.Join(files.Sys, "bus/pci/drivers/nvidia", odd), text)
		plant(t, kind, filepath.Join(files.Proc, "4711/comm"), text)
		plant(t, kind, filepath.Join(files.Proc, "4711/fd/3"), text)
		plant(t, kind, filepath.Join(root, "dev/nvidia0"), text)
		started := time.Now()
		for _, address := range []string{odd, pci, shortBusID(pci), shortBusID(longBusID(pci))} {
			if n := files.NUMANode(address); n < -1 || n > maxNUMANode {
				t.Errorf("node %d", n)
			}
		}
		if n := files.NUMANode(good); n != 3 {
			t.Errorf("the other GPU is at node %d", n)
		}
		if kind%kindsOfFiles != textFile && kind%kindsOfFiles != closed && (files.SystemMemory() != 0 || files.NUMANode(odd) != -1) {
			t.Errorf("kind %d says node %d, memory %d", kind%kindsOfFiles, files.NUMANode(odd), files.SystemMemory())
		}
		files.SystemMemory()
		if bound := files.Bound(); slices.ContainsFunc(bound, func(id string) bool { return id != odd }) {
			t.Errorf("bound is %q", bound)
		}
		holders := NodeHolders{Proc: files.Proc, Sys: files.Sys, Dev: root}
		holders.Modules()
		holders.Clients(longBusID(pci), 0)
		if took := time.Since(started); took > 10*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestHostFilesSay(t *testing.T) {
	root := t.TempDir()
	files := HostFiles{Proc: filepath.Join(root, "proc"), Sys: filepath.Join(root, "sys")}
	if bound := files.Bound(); bound != nil {
		t.Errorf("without a driver %v are bound to it", bound)
	}
	plant(t, textFile, filepath.Join(files.Proc, "meminfo"), "MemFree:  1 kB\nMemTotal:       125511680 kB\nMemAvailable: 2 kB\n")
	for _, name := range []string{"0000:65:00.0", "10000:e1:00.0", "bind", "module", "new_id", "uevent"} {
		plant(t, textFile, filepath.Join(files.Sys, "bus/pci/drivers/nvidia", name), "")
	}
	for node, want := range map[string]int{"1": 1, "0": 0, "-1": -1, "": -1, "x": -1, "1 2": -1, "1023": 1023, "1024": -1} {
		plant(t, textFile, filepath.Join(files.Sys, "bus/pci/devices/10000:e1:00.0/numa_node"), node+"\n")
		if n := files.NUMANode("10000:e1:00.0"); n != want {
			t.Errorf("%q is node %d, want %d", node, n, want)
		}
	}
	if memory, bound := files.SystemMemory(), fmt.Sprint(files.Bound()); memory != 122570 || bound != "[0000:65:00.0 10000:e1:00.0]" {
		t.Errorf("memory %d, bound %s", memory, bound)
	}
	if err := os.RemoveAll(filepath.Join(files.Sys, "bus/pci/drivers/nvidia")); err != nil {
		t.Fatal(err)
	}
	plant(t, textFile, filepath.Join(files.Sys, "bus/pci/drivers/nvidia/bind"), "")
	if bound := files.Bound(); bound == nil || len(bound) > 0 {
		t.Errorf("a driver without GPUs has %v", bound)
	}
	plant(t, textFile, filepath.Join(root, "long"), strings.Repeat("x", maxHostFile+1))
	if _, err := ReadHostFile(filepath.Join(root, "long")); err == nil {
		t.Error("a file above the bound was read")
	}
}
