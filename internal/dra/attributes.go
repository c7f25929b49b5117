// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package dra

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"gpuslice/internal/agent"
	"gpuslice/pkg/devices"
)

// Values of the attribute "type".
const (
	typeGPU = "gpu"
	typeMIG = "mig"
)

// brands are the published names of nvml.h's NVML_BRAND_* numbers; newer numbers are "Unknown" too.
var brands = []string{
	"Unknown", "Quadro", "Tesla", "NVS", "Grid", "GeForce", "Titan", "NvidiaVApps", "NvidiaVPC", "NvidiaVCS", "NvidiaVWS",
	"NvidiaCloudGaming", "QuadroRTX", "NvidiaRTX", "Nvidia", "GeForceRTX", "TitanRTX",
}

// architectures are the published names of nvml.h's NVML_DEVICE_ARCH_* numbers; 0 means that the driver does not say.
var architectures = map[int]string{
	2: "Kepler", 3: "Maxwell", 4: "Pascal", 5: "Volta", 6: "Turing", 7: "Ampere", 8: "Ada Lovelace", 9: "Hopper",
	10: "Blackwell", 13: "Rubin",
}

func brandName(number int) string {
	if number < 0 || number >= len(brands) {
		return brands[0]
	}
	return brands[number]
}

func architectureName(number int) string {
	if name, ok := architectures[number]; ok || number == 0 {
		return name
	}
	return "Unknown"
}

// PCIeRoots names the PCIe root of a PCI address, or "" when it is not known.
type PCIeRoots func(pci string) string

// SysfsRoots reads sysfs for one device at a time, so that an odd one harms none.
func SysfsRoots(sysRoot string) PCIeRoots {
	return func(pci string) string {
		a, err := deviceattribute.GetPCIeRootAttributeByPCIBusID(pci, deviceattribute.WithFSFromRoot(sysRoot))
		if err != nil || a.Value.StringValue == nil {
			return ""
		}
		return *a.Value.StringValue
	}
}

// attributes collects what is known; what is not is absent, because a selector can ask for absence and not for a lie (P7).
type attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute

// text leaves out what the API would refuse the whole slice for.
func (a attributes) text(name resourceapi.QualifiedName, value string) {
	if value != "" && len(value) <= resourceapi.DeviceAttributeMaxValueLength && utf8.ValidString(value) {
		a[name] = resourceapi.DeviceAttribute{StringValue: &value}
	}
}

func (a attributes) version(name resourceapi.QualifiedName, value string) {
	if v := semver(value); v != "" {
		a[name] = resourceapi.DeviceAttribute{VersionValue: &v}
	}
}

func attributesOf(d agent.Device, n devices.Node, roots PCIeRoots) attributes {
	g, a := d.GPU, attributes{}
	a.text("uuid", d.UUID)
	a.text("productName", g.Product)
	a.text("brand", brandName(g.Brand))
	a.text("architecture", architectureName(g.Architecture))
	a.version("driverVersion", n.DriverVersion)
	if n.CUDAVersion > 0 {
		a.version("cudaDriverVersion", fmt.Sprintf("%d.%d", n.CUDAVersion/1000, n.CUDAVersion%1000/10))
	}
	if g.ComputeMajor > 0 {
		a.version("cudaComputeCapability", fmt.Sprintf("%d.%d", g.ComputeMajor, g.ComputeMinor))
	}
	a.place(g, roots)
	if d.Instance == nil {
		a.text("type", typeGPU)
		return a
	}
	a.text("type", typeMIG)
	a.text("parentUUID", g.UUID)
	a.text("profile", d.Instance.Slot.Profile.Name)
	return a
}

// place says where the GPU is.
func (a attributes) place(g devices.GPU, roots PCIeRoots) {
	if bus, err := deviceattribute.GetPCIBusIDAttribute(g.PCI); err == nil {
		a[bus.Name] = bus.Value
	}
	if g.NUMA >= 0 {
		node := int64(g.NUMA)
		a[deviceattribute.StandardDeviceAttributeNUMANode] = resourceapi.DeviceAttribute{IntValue: &node}
	}
	if roots != nil {
		a.text(deviceattribute.StandardDeviceAttributePCIeRoot, roots(g.PCI))
	}
}

// semver makes a full version out of one to three numbers with dots, as "580.126.09" is none: 580.126.9.
// It is "" when that cannot be done.
func semver(text string) string {
	parts := strings.Split(text, ".")
	if len(parts) > 3 {
		return ""
	}
	numbers := [3]uint64{}
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 10, 32)
		if err != nil {
			return ""
		}
		numbers[i] = n
	}
	return fmt.Sprintf("%d.%d.%d", numbers[0], numbers[1], numbers[2])
}
