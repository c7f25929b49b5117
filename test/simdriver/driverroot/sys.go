// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package driverroot

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
)

const (
	pciClass = 0x030200 // 3D controller
	// configSize is that of a PCI Express device.
	configSize = 4096
)

// sys is what PCI devices show in /sys. Every NUMA node has a PCI root of its own, and a bridge in it.
func sys(p Paths, s State) tree {
	t := tree{}
	if s.Loaded {
		t[filepath.Join(p.Sys, "module/nvidia/version")] = text("%s\n", s.Version)
	}
	bus := filepath.Join(p.Sys, "bus/pci")
	for _, g := range s.GPUs {
		id := shortBusID(g.BusID)
		inside := hostBridge(g) + "/" + id
		folder := filepath.Join(p.Sys, "devices", inside)
		for name, e := range g.attributes() {
			t[filepath.Join(folder, name)] = e
		}
		t[filepath.Join(bus, "devices", id)] = link("../../../devices/" + inside)
		if s.Loaded {
			t[filepath.Join(folder, "driver")] = link("../../../../bus/pci/drivers/nvidia")
			t[filepath.Join(bus, "drivers/nvidia", id)] = link("../../../../devices/" + inside)
		}
	}
	return t
}

// hostBridge is the path from the PCI root to the device's bridge: "pci0000:00/0000:00:01.0".
func hostBridge(g GPU) string {
	domain, _, _ := strings.Cut(shortBusID(g.BusID), ":")
	root := 0x80 * max(g.NUMA, 0)
	return fmt.Sprintf("pci%s:%02x/%s:%02x:01.0", domain, root, domain, root)
}

func (g GPU) attributes() tree {
	vendor, device := g.PCIDeviceID&0xFFFF, g.PCIDeviceID>>16
	return tree{
		"vendor":           text("0x%04x\n", vendor),
		"device":           text("0x%04x\n", device),
		"subsystem_vendor": text("0x%04x\n", vendor),
		"subsystem_device": text("0x%04x\n", device),
		"class":            text("0x%06x\n", pciClass),
		"revision":         text("0xa1\n"),
		"numa_node":        text("%d\n", g.NUMA),
		"uevent":           text("DRIVER=nvidia\nPCI_SLOT_NAME=%s\n", shortBusID(g.BusID)),
		"resource":         text("%s", resources(g.Index)),
		"config":           {mode: 0o644, data: g.config()},
	}
}

// resources are three memory bars of 16 MiB, 128 GiB and 32 MiB, and ten lines without any.
func resources(index int) string {
	const flags = 0x14220c
	base := uint64(0x10_0000_0000_00) + uint64(index)<<40
	var b strings.Builder
	for bar := range 13 {
		size := map[int]uint64{0: 16 << 20, 1: 128 << 30, 3: 32 << 20}[bar]
		if size == 0 {
			b.WriteString("0x0000000000000000 0x0000000000000000 0x0000000000000000\n")
			continue
		}
		start := base + uint64(bar)<<38
		fmt.Fprintf(&b, "0x%016x 0x%016x 0x%016x\n", start, start+size-1, uint64(flags))
	}
	return b.String()
}

// config is the configuration space, in which only the identity is filled.
func (g GPU) config() []byte {
	var b bytes.Buffer
	head := []any{g.PCIDeviceID&0xFFFF | g.PCIDeviceID>>16<<16, uint32(0), uint32(pciClass<<8 | 0xa1), make([]byte, 32), g.PCIDeviceID}
	for _, field := range head {
		_ = binary.Write(&b, binary.LittleEndian, field) // memory takes every write
	}
	return append(b.Bytes(), make([]byte, configSize-b.Len())...)
}
