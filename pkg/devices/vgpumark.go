// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import (
	"bytes"
	"path/filepath"
	"strconv"
	"strings"
)

// VGPUMark is what the configuration space of a GPU says of it: the host of a virtual machine marks there the vGPUs that it makes.
type VGPUMark struct {
	Virtual     bool
	HostVersion string // of the host's driver; "" = not said
	HostBranch  string
}

// Layout of a PCI configuration space, and of the vendor's capability in it that marks a vGPU.
const (
	configSize       = 256
	configStatus     = 0x06
	hasCapabilities  = 0x10
	firstCapability  = 0x34
	vendorCapability = 0x09
	markAt           = 3 // "VF" in the capability
	recordsAt        = 5 // records of an id, a length and data
	hostRecord       = 0 // the id of the one with two texts
	hostTextSize     = 10
)

// Machine is the product name that the firmware gives the machine; "" = not known.
func (h HostFiles) Machine() string {
	text, err := ReadHostFile(filepath.Join(h.Sys, "class/dmi/id/product_name"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(text)
}

// PCIClass is the class of the device at a PCI address, 0x030200; 0 = not known.
func (h HostFiles) PCIClass(pci string) uint32 {
	if !busIDPattern.MatchString(pci) {
		return 0
	}
	text, err := ReadHostFile(filepath.Join(h.Sys, "bus/pci/devices", pci, "class"))
	if err != nil {
		return 0
	}
	class, err := strconv.ParseUint(strings.TrimPrefix(strings.TrimSpace(text), "0x"), 16, 24)
	if err != nil {
		return 0
	}
	return uint32(class)
}

// VGPUMark reads the mark of a GPU; nil = not known. The kernel shows all of the configuration space to privileged readers only.
func (h HostFiles) VGPUMark(pci string) *VGPUMark {
	if !busIDPattern.MatchString(pci) {
		return nil
	}
	config, err := ReadHostFile(filepath.Join(h.Sys, "bus/pci/devices", pci, "config"))
	if err != nil {
		return nil
	}
	return markOf([]byte(config))
}

func markOf(config []byte) *VGPUMark {
	if len(config) < configSize || config[0] == 0xff && config[1] == 0xff { // nobody at that address answers
		return nil
	}
	mark := &VGPUMark{}
	capability := vendorsCapability(config[:configSize])
	if len(capability) < recordsAt || string(capability[markAt:recordsAt]) != "VF" {
		return mark
	}
	mark.Virtual = true
	for records := capability[recordsAt:]; len(records) >= 2; {
		size := int(records[1])
		if records[0] == hostRecord {
			if texts := records[2:]; len(texts) >= 2*hostTextSize {
				mark.HostVersion, mark.HostBranch = hostText(texts[:hostTextSize]), hostText(texts[hostTextSize:2*hostTextSize])
			}
			break
		}
		if size < 2 || size > len(records) {
			break // a length that leads nowhere
		}
		records = records[size:]
	}
	return mark
}

// vendorsCapability finds the first capability of that kind; each place is looked at once, so that a loop ends.
func vendorsCapability(config []byte) []byte {
	if config[configStatus]&hasCapabilities == 0 {
		return nil
	}
	seen := [configSize]bool{}
	for at := int(config[firstCapability]); at != 0 && at+2 < configSize && !seen[at]; at = int(config[at+1]) {
		seen[at] = true
		if config[at] == vendorCapability {
			return config[at:min(configSize, at+int(config[at+2]))]
		}
	}
	return nil
}

func hostText(field []byte) string {
	text, _, _ := bytes.Cut(field, []byte{0})
	return string(text)
}
