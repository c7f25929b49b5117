// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package dra_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"sigs.k8s.io/yaml"

	"gpuslice/internal/agent"
	"gpuslice/internal/dra"
)

// classes are the DeviceClasses that we ship.
type classes []*resourceapi.DeviceClass

func shippedClasses(t *testing.T) classes {
	t.Helper()
	paths, err := filepath.Glob("../../deployments/deviceclasses/*.yaml")
	if err != nil || len(paths) != 2 {
		t.Fatalf("class files: %v, %v", paths, err)
	}
	list := classes{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		c := &resourceapi.DeviceClass{}
		if err := yaml.UnmarshalStrict(text, c); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if c.APIVersion != "resource.k8s.io/v1" || c.Kind != "DeviceClass" || c.Name+".yaml" != filepath.Base(path) {
			t.Errorf("%s holds %s %s %s", path, c.APIVersion, c.Kind, c.Name)
		}
		list = append(list, c)
	}
	return list
}

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	i := slices.IndexFunc(c, func(x *resourceapi.DeviceClass) bool { return x.Name == name })
	if i < 0 {
		return nil, os.ErrNotExist
	}
	return c[i], nil
}

// P9: each class takes its kind of device and no other, by the scheduler's own CEL.
func TestClassesSelectTheirKind(t *testing.T) {
	published := dra.Slices(viewOf(half(), anotherGPU()), nil)
	want := map[string]string{"gpu.nvidia.com": "gpu-1", "mig.nvidia.com": "gpu-0-mig-3g40gb-9-4"}
	for _, c := range shippedClasses(t) {
		if len(c.Spec.Selectors) != 1 {
			t.Fatalf("%s has %d selectors", c.Name, len(c.Spec.Selectors))
		}
		compiled := cel.GetCompiler(cel.Features{}).CompileCELExpression(c.Spec.Selectors[0].CEL.Expression, cel.Options{})
		if compiled.Error != nil {
			t.Fatalf("%s: %v", c.Name, compiled.Error)
		}
		for _, s := range published {
			for _, d := range s.Devices {
				matches, _, err := compiled.DeviceMatches(t.Context(), cel.Device{Driver: dra.DriverName, Attributes: d.Attributes, Capacity: d.Capacity})
				if err != nil || matches != (want[c.Name] == d.Name) {
					t.Errorf("%s matches %s: %v, %v", c.Name, d.Name, matches, err)
				}
			}
		}
		foreign, _, err := compiled.DeviceMatches(t.Context(), cel.Device{Driver: "other.example.com"})
		if err != nil || foreign {
			t.Errorf("%s on another driver's device: %v, %v; an error would stop scheduling on every node", c.Name, foreign, err)
		}
	}
}

func anotherGPU() agent.Device {
	g := h100()
	g.Minor, g.PCI, g.UUID = 1, "0000:66:00.0", "GPU-00000000-0000-0000-0000-000000000001"
	return whole(g)
}

// The scheduler's own allocator finds what users ask for in what we publish.
func TestAllocatorFindsWhatIsAskedFor(t *testing.T) {
	const large = `device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0`
	sick := anotherGPU()
	sick.Fault = "lost"
	for _, c := range []struct {
		name, class, selector string
		offered               []agent.Device
		want                  string // "" = nothing fits
	}{
		{"a GPU with 40 GiB", "gpu.nvidia.com", large, []agent.Device{half(), anotherGPU()}, "gpu-1"},
		{"39.5 GiB are not 40", "mig.nvidia.com", large, []agent.Device{half(), anotherGPU()}, ""},
		{"an instance with 39 GiB", "mig.nvidia.com", `device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("39Gi")) >= 0`, []agent.Device{half(), anotherGPU()}, "gpu-0-mig-3g40gb-9-4"},
		{"an instance by profile", "mig.nvidia.com", `device.attributes["gpu.nvidia.com"].profile == "3g.40gb"`, []agent.Device{anotherGPU(), half()}, "gpu-0-mig-3g40gb-9-4"},
		{"a driver that is new enough", "gpu.nvidia.com", `device.attributes["gpu.nvidia.com"].driverVersion.compareTo(semver("580.65.6")) >= 0`, []agent.Device{anotherGPU()}, "gpu-1"},
		{"nothing new goes to a GPU that is not well", "gpu.nvidia.com", large, []agent.Device{sick}, ""},
		{"an empty pool is no error", "gpu.nvidia.com", large, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := allocate(t, c.class, c.selector, viewOf(c.offered...)); got != c.want {
				t.Errorf("allocated %q, want %q", got, c.want)
			}
		})
	}
}

// allocate asks for one device and returns its name.
func allocate(t *testing.T, class, selector string, v *agent.View) string {
	t.Helper()
	objects := []*resourceapi.ResourceSlice{}
	for _, o := range dra.Objects(dra.Pool(dra.Slices(v, nil)), "n1") {
		o.Name = o.GenerateName
		objects = append(objects, &o)
	}
	features := structured.Features{AdminAccess: true, DeviceTaints: true, PrioritizedList: true}
	allocator, err := structured.NewAllocator(t.Context(), features, structured.AllocatedState{}, shippedClasses(t), objects, cel.NewCache(10, cel.Features{}))
	if err != nil {
		t.Fatal(err)
	}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "c", UID: "c"}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: selector}}},
	}}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	results, err := allocator.Allocate(t.Context(), node, []*resourceapi.ResourceClaim{claim})
	if err != nil {
		t.Fatal(err)
	}
	if len(results) == 0 {
		return ""
	}
	return results[0].Devices.Results[0].Device
}
