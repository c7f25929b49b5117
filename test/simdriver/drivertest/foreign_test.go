// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package drivertest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/NVIDIA/go-nvlib/pkg/nvlib/device"
	"github.com/NVIDIA/go-nvlib/pkg/nvpci"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/specs-go"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
	"gpuslice/test/simdriver/driverroot"
)

// seen is a GPU or a MIG device as NVIDIA's library for Go tells it.
type seen struct {
	UUID, BusID, Profile string
	Migs                 []seen
}

// printVisitors prints what the visitors of go-nvlib see.
func printVisitors(root string) error {
	lib := nvml.New(nvml.WithLibraryPath(driverroot.Under(root).NVML()))
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return fmt.Errorf("init: %w", ret)
	}
	all := []seen{}
	err := device.New(lib).VisitDevices(func(_ int, d device.Device) error {
		s, err := visit(d)
		all = append(all, s)
		return err
	})
	if ret := lib.Shutdown(); ret != nvml.SUCCESS {
		err = errors.Join(err, ret)
	}
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(all))
}

func visit(d device.Device) (seen, error) {
	uuid, ret := d.GetUUID()
	if ret != nvml.SUCCESS {
		return seen{}, ret
	}
	busID, err := d.GetPCIBusID()
	if err != nil {
		return seen{}, err
	}
	if fabric, err := d.IsFabricAttached(); err != nil || fabric {
		return seen{}, fmt.Errorf("fabric attached: %t: %w", fabric, err)
	}
	if coherent, err := d.IsCoherent(); err != nil || coherent {
		return seen{}, fmt.Errorf("coherent: %t: %w", coherent, err)
	}
	s := seen{UUID: uuid, BusID: busID}
	err = d.VisitMigDevices(func(_ int, m device.MigDevice) error {
		profile, err := m.GetProfile()
		if err != nil {
			return err
		}
		uuid, ret := m.GetUUID()
		if ret != nvml.SUCCESS {
			return ret
		}
		s.Migs = append(s.Migs, seen{UUID: uuid, Profile: profile.String()})
		return nil
	})
	return s, err
}

// profiles are what go-nvlib calls the MIG devices of the machine mixed, by slot and compute instance.
var profiles = map[string]string{"3g.40gb@4/0": "3g.40gb", "2g.20gb@0/0": "1c.2g.20gb", "2g.20gb@0/1": "1c.2g.20gb"}

func TestNVLibSeesTheMachine(t *testing.T) {
	n := startNode(t, mixed)
	var got []seen
	out := must[[]byte](t)(again(t, "visitors", n.paths.Root).Output())
	check(t, json.Unmarshal(out, &got))
	var want []seen
	for _, g := range n.Machine().GPUs() {
		s := seen{UUID: g.UUID, BusID: kernelBusID(g)}
		for _, i := range g.Instances {
			if i.CI != devices.NoInstance {
				s.Migs = append(s.Migs, seen{UUID: i.UUID, Profile: profiles[fmt.Sprintf("%s/%d", i.Slot, i.CI)]})
			}
		}
		want = append(want, s)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("go-nvlib (-want +got):\n%s", diff)
	}
}

// kernelBusID writes a bus id as the kernel does.
func kernelBusID(g sim.GPU) string { return strings.ToLower(strings.TrimPrefix(g.BusID, "0000")) }

func TestNVPCISeesTheMachine(t *testing.T) {
	n := startNode(t, mixed)
	got, err := nvpci.New(nvpci.WithPCIDevicesRoot(filepath.Join(n.paths.Sys, "bus/pci/devices"))).GetGPUs()
	check(t, err)
	gpus := n.Machine().GPUs()
	if len(got) != len(gpus) {
		t.Fatalf("%d PCI devices, want %d", len(got), len(gpus))
	}
	for i, g := range gpus {
		d := got[i]
		if d.Address != kernelBusID(g) || uint32(d.Device)<<16|uint32(d.Vendor) != g.PCIDeviceID || d.NumaNode != g.NUMA || d.Driver != "nvidia" {
			t.Errorf("PCI device %d is %+v, want %+v", i, d, g)
		}
		if vendor, err := d.Config.Read(); err != nil || vendor.GetVendorID() != 0x10DE {
			t.Errorf("configuration space of %s: %v", d.Address, err)
		}
		if _, size := d.Resources.GetTotalAddressableMemory(true); size == 0 {
			t.Errorf("%s has no memory", d.Address)
		}
	}
}

// printCDI prints the CDI spec of everything. NVIDIA's library reads some files of the running kernel whatever its roots
// are, so this process gets the rendered ones in their place; it must be in a mount namespace of its own.
func printCDI(root string) error {
	p := driverroot.Under(root)
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("leave the mounts alone: %w", err)
	}
	for from, to := range map[string]string{
		filepath.Join(p.Proc, "driver"):         "/proc/driver",
		filepath.Join(p.Sys, "bus/pci/devices"): "/sys/bus/pci/devices",
	} {
		if _, err := os.Stat(to); err != nil {
			continue // a kernel without PCI
		}
		if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s on %s: %w", from, to, err)
		}
	}
	lib, err := nvcdi.New(
		nvcdi.WithNvmlLib(nvml.New(nvml.WithLibraryPath(p.NVML()))), nvcdi.WithDriverRoot(root), nvcdi.WithDevRoot(root),
		nvcdi.WithMode(nvcdi.ModeNvml), nvcdi.WithVendor("example.com"), nvcdi.WithDisabledHooks(nvcdi.AllHooks),
		nvcdi.WithFeatureFlags(nvcdi.FeatureDisableNvsandboxUtils),
	)
	if err != nil {
		return err
	}
	spec, err := lib.GetSpec("all")
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(spec.Raw())
}

func (n node) cdiSpec() specs.Spec {
	n.t.Helper()
	cmd := again(n.t, "cdi", n.paths.Root)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out := must[[]byte](n.t)(cmd.Output())
	var spec specs.Spec
	check(n.t, json.Unmarshal(out, &spec))
	return spec
}

// nodesOf are the nodes of an edit by their path in the container.
func nodesOf(edits specs.ContainerEdits) map[string][2]int64 {
	all := map[string][2]int64{}
	for _, d := range edits.DeviceNodes {
		all[d.Path] = [2]int64{d.Major, d.Minor}
	}
	return all
}

// capMinor is the published numbering: 15 GPU instances of 8 compute instances each, behind config 1 and monitor 2.
func capMinor(gpu, gi, ci int) int64 { return int64(3 + 135*gpu + 9*gi + 1 + ci) }

func TestNVCDIMakesEveryDevice(t *testing.T) {
	n := startNode(t, mixed)
	want := map[string]map[string][2]int64{}
	for i, g := range n.Machine().GPUs() {
		gpu := fmt.Sprintf("/dev/nvidia%d", g.Minor)
		if !g.MIG {
			want[fmt.Sprint(i)] = map[string][2]int64{gpu: {195, int64(g.Minor)}}
		}
		rank := 0
		for _, m := range g.Instances {
			if m.CI == devices.NoInstance {
				continue
			}
			gi, ci := capMinor(g.Minor, m.GI, -1), capMinor(g.Minor, m.GI, m.CI)
			want[fmt.Sprintf("%d:%d", i, rank)] = map[string][2]int64{
				gpu: {195, int64(g.Minor)},
				fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", gi): {235, gi}, fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", ci): {235, ci},
			}
			rank++
		}
	}
	got := map[string]map[string][2]int64{}
	spec := n.cdiSpec()
	for _, d := range spec.Devices {
		got[d.Name] = nodesOf(d.ContainerEdits)
	}
	delete(got, "all")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if common := nodesOf(spec.ContainerEdits); common["/dev/nvidiactl"] != [2]int64{195, 255} || common["/dev/nvidia-uvm"][0] == 0 {
		t.Errorf("common nodes are %v", common)
	}
}

func TestNVCDIFindsTheInstallation(t *testing.T) {
	n := startNode(t, mixed)
	mounts := map[string]bool{}
	for _, m := range n.cdiSpec().ContainerEdits.Mounts {
		mounts[m.ContainerPath] = true
	}
	libraries := strings.TrimPrefix(filepath.Dir(n.paths.NVML()), n.paths.Root)
	for _, want := range []string{
		libraries + "/libcuda.so.595.45.04", libraries + "/libnvidia-ml.so.595.45.04", libraries + "/libnvidia-nvvm.so.595.45.04",
		"/usr/bin/nvidia-smi", "/run/nvidia-persistenced/socket", "/lib/firmware/nvidia/595.45.04/gsp_ga10x.bin",
	} {
		if !mounts[want] {
			t.Errorf("%s is not mounted; %v are", want, mounts)
		}
	}
}
