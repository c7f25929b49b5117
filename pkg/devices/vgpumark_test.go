// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// space is a configuration space with a list of capabilities, each at its place.
func space(first byte, capabilities map[int]string) string {
	config := make([]byte, configSize)
	copy(config, "\xde\x10\xb8\x1e")
	config[configStatus], config[firstCapability] = hasCapabilities, first
	for at, text := range capabilities {
		copy(config[at:], text)
	}
	return string(config)
}

// hostIs is the record of a host's driver.
const hostIs = "\x00\x16" + "460.16\x00\x00\x00\x00" + "r460_00\x00\x00\x00"

// L08: a configuration space is read for the mark of a vGPU; one that cannot be read, or not all of it, says nothing, and an odd
// one no more than what can be relied on.
func TestVGPUMark(t *testing.T) {
	marked := &VGPUMark{Virtual: true, HostVersion: "460.16", HostBranch: "r460_00"}
	for _, tc := range []struct {
		why    string
		kind   byte
		config string
		want   *VGPUMark
	}{
		{"a GPU", textFile, space(0x60, map[int]string{0x60: "\x01\x68\x03", 0x68: "\x05\x00\x80"}), &VGPUMark{}},
		{"a GPU with another capability of the vendor", textFile, space(0xd0, map[int]string{0xd0: "\x09\x00\x14\x01\x00"}), &VGPUMark{}},
		{"a vGPU", textFile, space(0x68, map[int]string{0x68: "\x05\xd0\x80", 0xd0: "\x09\x00\x1bVF" + hostIs}), marked},
		{"another record before the one that counts", textFile, space(0x80, map[int]string{0x80: "\x09\x00\x1eVF" + "\x07\x03x" + hostIs}), marked},
		{"a vGPU of which the host says no driver", textFile, space(0xd0, map[int]string{0xd0: "\x09\x00\x05VF"}), &VGPUMark{Virtual: true}},
		{"a record that is cut off", textFile, space(0xd0, map[int]string{0xd0: "\x09\x00\x10VF" + hostIs}), &VGPUMark{Virtual: true}},
		{"a record without length", textFile, space(0xd0, map[int]string{0xd0: "\x09\x00\x1bVF\x07\x00"}), &VGPUMark{Virtual: true}},
		{"a record longer than the capability", textFile, space(0xd0, map[int]string{0xd0: "\x09\x00\x1bVF\x07\xff"}), &VGPUMark{Virtual: true}},
		{"a list that runs in a circle", textFile, space(0x60, map[int]string{0x60: "\x01\x68\x03", 0x68: "\x05\x60\x80"}), &VGPUMark{}},
		{"a list that leads out", textFile, space(0xff, nil), &VGPUMark{}},
		{"a capability that ends outside", textFile, space(0xf8, map[int]string{0xf8: "\x09\x00\xffVF\x00"}), &VGPUMark{Virtual: true}},
		{"no list", textFile, string(make([]byte, 4096)), &VGPUMark{}},
		{"what the kernel shows to everybody", textFile, space(0xd0, nil)[:64], nil},
		{"the GPU has fallen off the bus", textFile, string(bytesOf(0xff, 4096)), nil},
		{"not there", nothing, "", nil},
		{"not for us", pipe, "", nil},
		{"without end", endless, "", nil},
		{"empty", textFile, "", nil},
	} {
		files := HostFiles{Sys: t.TempDir()}
		plant(t, tc.kind, filepath.Join(files.Sys, "bus/pci/devices/0000:65:00.0/config"), tc.config)
		if diff := cmp.Diff(tc.want, files.VGPUMark("0000:65:00.0")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.why, diff)
		}
	}
	if mark := (HostFiles{Sys: t.TempDir()}).VGPUMark("../.."); mark != nil {
		t.Errorf("an address that is none has %+v", mark)
	}
}

func bytesOf(b byte, n int) []byte {
	all := make([]byte, n)
	for i := range all {
		all[i] = b
	}
	return all
}

func TestMachineAndClass(t *testing.T) {
	files := HostFiles{Sys: t.TempDir()}
	if files.Machine() != "" || files.PCIClass("0000:65:00.0") != 0 || files.PCIClass("..") != 0 {
		t.Error("what is not there says something")
	}
	plant(t, textFile, filepath.Join(files.Sys, "class/dmi/id/product_name"), "PowerEdge XE9680\n")
	if got := files.Machine(); got != "PowerEdge XE9680" {
		t.Errorf("machine is %q", got)
	}
	for text, want := range map[string]uint32{"0x030200\n": 0x030200, "0x030000": 0x030000, "030200\n": 0x030200, "x": 0, "": 0, "0x1000000": 0, "-1": 0} {
		plant(t, textFile, filepath.Join(files.Sys, "bus/pci/devices/0000:65:00.0/class"), text)
		if got := files.PCIClass("0000:65:00.0"); got != want {
			t.Errorf("%q is class %#x, want %#x", text, got, want)
		}
	}
}

// P3: whatever is in a configuration space, reading it ends and stays inside it.
func FuzzVGPUMark(f *testing.F) {
	f.Add([]byte(space(0xd0, map[int]string{0xd0: "\x09\x00\x1bVF" + hostIs})))
	f.Add([]byte(space(0xff, nil)))
	f.Fuzz(func(t *testing.T, config []byte) {
		if mark := markOf(config); mark != nil && (len(mark.HostVersion) > hostTextSize || len(mark.HostBranch) > hostTextSize || !mark.Virtual && mark.HostVersion != "") {
			t.Errorf("%+v", mark)
		}
	})
}
