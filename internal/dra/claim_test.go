// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package dra

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"gpuslice/internal/state"
)

const head = `{"apiVersion":"resource.nvidia.com/v1beta1","kind":`

func TestParameters(t *testing.T) {
	for _, c := range []struct {
		name, raw string
		want      setting
		fails     string // "" = accepted
	}{
		{"an empty GpuConfig is the default", head + `"GpuConfig"}`, setting{kind: "GpuConfig"}, ""},
		{"an empty MigDeviceConfig is the default", head + `"MigDeviceConfig"}`, setting{kind: "MigDeviceConfig"}, ""},
		{"null is as good as nothing", head + `"GpuConfig","sharing":null}`, setting{kind: "GpuConfig"}, ""},
		{
			"the driver's own time slice", head + `"GpuConfig","sharing":{"strategy":"TimeSlicing","timeSlicingConfig":{"interval":"Default"}}}`,
			setting{"GpuConfig", "TimeSlicing", "Default"},
			"",
		},
		{"no interval is the default one", head + `"GpuConfig","sharing":{"strategy":"TimeSlicing"}}`, setting{"GpuConfig", "TimeSlicing", ""}, ""},
		{
			"an empty timeSlicingConfig, which crashed another driver", head + `"GpuConfig","sharing":{"strategy":"TimeSlicing","timeSlicingConfig":{}}}`,
			setting{"GpuConfig", "TimeSlicing", "Default"},
			"",
		},
		{
			"another interval is valid", head + `"GpuConfig","sharing":{"strategy":"TimeSlicing","timeSlicingConfig":{"interval":"Long"}}}`,
			setting{"GpuConfig", "TimeSlicing", "Long"},
			"",
		},
		{"MPS is valid", head + `"GpuConfig","sharing":{"strategy":"MPS","mpsConfig":{"defaultActiveThreadPercentage":50,"defaultPinnedDeviceMemoryLimit":"10Gi","defaultPerDevicePinnedMemoryLimit":{"0":"5Gi"},"multiUser":true}}}`, setting{"GpuConfig", "MPS", ""}, ""},
		{"time slicing of an instance has no effect", head + `"MigDeviceConfig","sharing":{"strategy":"TimeSlicing"}}`, setting{"MigDeviceConfig", "TimeSlicing", ""}, ""},

		{"not JSON", `{`, setting{}, "parameters: "},
		{"nothing", ``, setting{}, "parameters: "},
		{"null", `null`, setting{}, `kind "": valid are GpuConfig and MigDeviceConfig of resource.nvidia.com/v1beta1`},
		{"a list", `[]`, setting{}, "parameters: "},
		{"an unknown kind", head + `"VfioDeviceConfig"}`, setting{}, `kind "VfioDeviceConfig": valid are GpuConfig and MigDeviceConfig`},
		{"another version", `{"apiVersion":"resource.nvidia.com/v1","kind":"GpuConfig"}`, setting{}, `apiVersion "resource.nvidia.com/v1"`},
		{"an unknown field", head + `"GpuConfig","sharings":{}}`, setting{}, `strict decoding error: unknown field "sharings"; valid fields are sharing.strategy, sharing.timeSlicingConfig.interval, sharing.mpsConfig`},
		{"a field in the wrong case", head + `"GpuConfig","Sharing":{}}`, setting{}, `unknown field "Sharing"`},
		{"a field twice", head + `"GpuConfig","sharing":null,"sharing":null}`, setting{}, `duplicate field "sharing"`},
		{"an unknown field below", head + `"GpuConfig","sharing":{"strategy":"TimeSlicing","interval":"Long"}}`, setting{}, `unknown field "sharing.interval"`},
		{"an instance has no time slice", head + `"MigDeviceConfig","sharing":{"strategy":"TimeSlicing","timeSlicingConfig":{}}}`, setting{}, `unknown field "sharing.timeSlicingConfig"; valid fields are sharing.strategy, sharing.mpsConfig`},
		{"no strategy", head + `"GpuConfig","sharing":{}}`, setting{}, `sharing.strategy "": valid are TimeSlicing, MPS`},
		{"an unknown strategy", head + `"MigDeviceConfig","sharing":{"strategy":"Magic"}}`, setting{}, `sharing.strategy "Magic": valid are TimeSlicing, MPS`},
		{"an unknown interval", head + `"GpuConfig","sharing":{"strategy":"TimeSlicing","timeSlicingConfig":{"interval":"long"}}}`, setting{}, `interval "long": valid are Default, Short, Medium, Long`},
		{"MPS settings without MPS", head + `"GpuConfig","sharing":{"strategy":"TimeSlicing","mpsConfig":{}}}`, setting{}, `sharing.mpsConfig does not go with sharing.strategy TimeSlicing`},
		{"a time slice with MPS", head + `"GpuConfig","sharing":{"strategy":"MPS","timeSlicingConfig":{}}}`, setting{}, `sharing.timeSlicingConfig does not go with sharing.strategy MPS`},
		{"a memory limit that is none", head + `"GpuConfig","sharing":{"strategy":"MPS","mpsConfig":{"defaultPinnedDeviceMemoryLimit":"much"}}}`, setting{}, "GpuConfig: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseParameters([]byte(c.raw))
			if c.fails == "" && (err != nil || got != c.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, c.want)
			}
			if c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("got %+v, %v, want an error with %q", got, err, c.fails)
			}
		})
	}
}

// result is an allocated device of this node.
func result(request, device string) resourceapi.DeviceRequestAllocationResult {
	return resourceapi.DeviceRequestAllocationResult{Request: request, Driver: DriverName, Pool: "n1", Device: device}
}

// entry is a config for our driver: raw completes the head.
func entry(source resourceapi.AllocationConfigSource, raw string, requests ...string) resourceapi.DeviceAllocationConfiguration {
	return resourceapi.DeviceAllocationConfiguration{
		Source: source, Requests: requests,
		DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
			Driver: DriverName, Parameters: runtime.RawExtension{Raw: []byte(head + raw + "}")},
		}},
	}
}

func claimOf(a *resourceapi.AllocationResult) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "train", UID: "u1"},
		Status:     resourceapi.ResourceClaimStatus{Allocation: a},
	}
}

const (
	isDefault = `"GpuConfig"`
	isLong    = `"GpuConfig","sharing":{"strategy":"TimeSlicing","timeSlicingConfig":{"interval":"Long"}}`
	isMPS     = `"MigDeviceConfig","sharing":{"strategy":"MPS"}`
	class     = resourceapi.AllocationConfigSourceClass
	claim     = resourceapi.AllocationConfigSourceClaim
)

func TestWhichParametersApply(t *testing.T) {
	foreign := entry(claim, `"whatever it likes"`)
	foreign.Opaque.Driver = "other.example.com"
	alien := entry(claim, isDefault)
	alien.Opaque = nil
	for _, c := range []struct {
		name    string
		results []resourceapi.DeviceRequestAllocationResult
		config  []resourceapi.DeviceAllocationConfiguration
		fails   string // "" = prepared as by default
	}{
		{"none", one("r", "gpu-0"), nil, ""},
		{"the default for every request", one("r", "gpu-0"), configs(entry(claim, isDefault)), ""},
		{"one that would have an effect", one("r", "gpu-0"), configs(entry(claim, isLong)), "claim team-a/train: request r: GpuConfig: sharing.timeSlicingConfig.interval Long: not supported yet; Default is"},
		{"the claim's comes after the class's", one("r", "gpu-0"), configs(entry(class, isLong), entry(claim, isDefault)), ""},
		{"the last one wins", one("r", "gpu-0"), configs(entry(class, isDefault), entry(claim, isDefault), entry(claim, isLong)), "not supported yet"},
		{"one for another request", one("r", "gpu-0"), configs(entry(claim, isLong, "s")), ""},
		{"one that names the request", one("r", "gpu-0"), configs(entry(claim, isLong, "s", "r")), "not supported yet"},
		{"one that names the parent of alternatives", one("r/big", "gpu-0"), configs(entry(claim, isLong, "r")), "not supported yet"},
		{"one that names the alternative", one("r/big", "gpu-0"), configs(entry(claim, isLong, "r/big")), "not supported yet"},
		{"one that names the other alternative", one("r/big", "gpu-0"), configs(entry(claim, isLong, "r/small")), ""},
		{"one for every request whose kind does not fit", one("r", "gpu-0"), configs(entry(claim, isMPS)), ""},
		{"one for the parent whose kind does not fit this alternative", one("r/small", "gpu-0-mig-1g10gb-19-0"), configs(entry(claim, isLong, "r")), ""},
		{"one that names a request of another type", one("r", "gpu-0-mig-1g10gb-19-0"), configs(entry(claim, isDefault, "r")), "claim team-a/train: request r: cannot apply GpuConfig to device gpu-0-mig-1g10gb-19-0 of type mig"},
		{"the other way round", one("r", "gpu-0"), configs(entry(claim, isMPS, "r")), "cannot apply MigDeviceConfig to device gpu-0 of type gpu"},
		{"MPS for an instance", one("r", "gpu-0-mig-1g10gb-19-0"), configs(entry(claim, isMPS)), "MigDeviceConfig: sharing.strategy MPS: not supported yet"},
		{"another driver's is not ours to read", one("r", "gpu-0"), configs(foreign), ""},
		{"a mistake shows even where it would not apply", one("r", "gpu-0"), configs(entry(class, isDefault), entry(claim, `"Gpu"`, "s")), `claim team-a/train: config 1 (FromClaim): parameters of apiVersion "resource.nvidia.com/v1beta1", kind "Gpu"`},
		{"a form of config that nobody knows", one("r", "gpu-0"), configs(alien), "config 0 (FromClaim): neither opaque nor known"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readClaim(claimOf(&resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: c.results, Config: c.config}}), "n1")
			switch {
			case c.fails == "" && err != nil:
				t.Error(err)
			case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
				t.Errorf("got %v, want %q", err, c.fails)
			case strings.Contains(c.fails, "not supported yet") && !errors.Is(err, ErrNotSupportedYet):
				t.Errorf("%v does not wrap ErrNotSupportedYet", err)
			}
		})
	}
}

func one(request, device string) []resourceapi.DeviceRequestAllocationResult {
	return []resourceapi.DeviceRequestAllocationResult{result(request, device)}
}

func configs(list ...resourceapi.DeviceAllocationConfiguration) []resourceapi.DeviceAllocationConfiguration {
	return list
}

func TestOrderAndAnswer(t *testing.T) {
	foreign, elsewhere, admin, shared := result("a", "gpu-0"), result("b", "gpu-1"), result("c", "gpu-2"), result("d/big", "gpu-3")
	foreign.Driver, elsewhere.Pool = "other.example.com", "n2"
	yes, share := true, types.UID("share-1")
	admin.AdminAccess, shared.ShareID = &yes, &share
	o, err := readClaim(claimOf(&resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{foreign, elsewhere, admin, shared},
	}}), "n1")
	if err != nil {
		t.Fatal(err)
	}
	wantClaim := state.Claim{UID: "u1", Namespace: "team-a", Name: "train", Devices: []state.Device{
		{Request: "c", Pool: "n1", Name: "gpu-2", Admin: true},
		{Request: "d/big", Pool: "n1", Name: "gpu-3"},
	}}
	if diff := cmp.Diff(wantClaim, o.claim); diff != "" {
		t.Error(diff)
	}
	wantAnswer := []kubeletplugin.Device{
		{Requests: []string{"c"}, PoolName: "n1", DeviceName: "gpu-2", CDIDeviceIDs: []string{"k8s.gpu.nvidia.com/claim=u1-gpu-2"}},
		{Requests: []string{"d/big"}, PoolName: "n1", DeviceName: "gpu-3", CDIDeviceIDs: []string{"k8s.gpu.nvidia.com/claim=u1-gpu-3"}, ShareID: &share},
	}
	if diff := cmp.Diff(wantAnswer, o.answer()); diff != "" {
		t.Error(diff)
	}
}

func TestClaimWithNothingForThisNode(t *testing.T) {
	for name, a := range map[string]*resourceapi.AllocationResult{
		"claim team-a/train is not allocated":                                             nil,
		"claim team-a/train: none of its devices is of driver gpu.nvidia.com and pool n1": {},
	} {
		if _, err := readClaim(claimOf(a), "n1"); err == nil || err.Error() != name {
			t.Errorf("got %v, want %q", err, name)
		}
	}
}

// Whatever a user writes is refused or read, and what is accepted can be written down and read again.
func FuzzParameters(f *testing.F) {
	for _, seed := range []string{isDefault, isLong, isMPS, `"GpuConfig","sharing":{"strategy":"TimeSlicing","timeSlicingConfig":{}}`, `"GpuConfig","sharing":{}`} {
		f.Add([]byte(head + seed + "}"))
	}
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := parseParameters(raw)
		if err == nil && s.kind != kindGPU && s.kind != kindMIG {
			t.Errorf("accepted as kind %q", s.kind)
		}
		if err == nil && s.supported() == nil && strings.Contains(s.strategy, "MPS") {
			t.Error("MPS passes as supported")
		}
	})
}

// No claim makes the driver panic, and no device of another driver or pool gets into an order.
func FuzzClaim(f *testing.F) {
	f.Add(DriverName, "n1", "r/big", "gpu-0", "r", []byte(head+isDefault+"}"), true)
	f.Add("other.example.com", "n1", "r", "gpu-0-mig-1g10gb-19-0", "r/", []byte(head+isMPS+"}"), false)
	f.Add("", "", "/", "", "", []byte(nil), false)
	f.Fuzz(func(t *testing.T, driver, pool, request, device, named string, raw []byte, admin bool) {
		r := resourceapi.DeviceRequestAllocationResult{Request: request, Driver: driver, Pool: pool, Device: device, AdminAccess: &admin}
		with := entry(claim, isDefault, named)
		with.Opaque.Parameters.Raw = raw
		o, err := readClaim(claimOf(&resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{r, result("s", "gpu-1"), r}, Config: configs(with),
		}}), "n1")
		if err != nil {
			return
		}
		if len(o.answer()) != len(o.results) || len(o.names()) != len(o.claim.Devices) {
			t.Errorf("order %+v", o)
		}
		for _, r := range o.results {
			if r.Driver != DriverName || r.Pool != "n1" {
				t.Errorf("order has %+v", r)
			}
		}
	})
}
