// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/pkg/devices"
)

const (
	normalH100  = "gpus:\n- {model: h100-sxm5-80gb, mig: true}\n"
	swappedH100 = "gpus:\n- {model: h100-pcie-80gb, mig: true, swappedHalves: true}\n"
	cutA30      = "gpus:\n- {model: a30-24gb, mig: true}\n"
	cutRTX      = "gpus:\n- {model: rtx-pro-6000-blackwell-se-96gb, mig: true}\n"
)

// Instance ids as they stand in public transcripts of nvidia-smi mig -cgi and -lgi, for the placements that the driver chose.
func TestIDsAreThoseOfTheTranscripts(t *testing.T) {
	for _, tc := range []struct {
		name, machine string
		slots         string // "profile@start" in order of creation
		ids           []int
	}{
		{
			"H100 SXM, seven 1g", normalH100,
			"1g.10gb@6 1g.10gb@4 1g.10gb@5 1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3",
			[]int{13, 11, 12, 7, 8, 9, 10},
		},
		{
			"H100 PCIe with swapped halves", swappedH100,
			"1g.10gb@6 1g.10gb@4 1g.10gb@5 1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3",
			[]int{9, 7, 8, 11, 12, 13, 14},
		},
		{"swapped halves, quarters and halves", swappedH100, "2g.20gb@4 1g.20gb@6 4g.40gb@0", []int{3, 4, 2}},
		{"3g, 1g, 2g, 1g", normalH100, "3g.40gb@4 1g.10gb@0 2g.20gb@2 1g.10gb@1", []int{2, 7, 4, 8}},
		{"2g and five 1g", normalH100, "2g.20gb@4 1g.10gb@6 1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3", []int{5, 13, 7, 8, 9, 10}},
		{"double-memory 1g", normalH100, "1g.20gb@4 1g.20gb@0 1g.20gb@2 1g.20gb@6", []int{5, 3, 4, 6}},
		{"the whole GPU", normalH100, "7g.80gb@0", []int{0}},
		{"A30 in quarters", cutA30, "1g.6gb@0 1g.6gb@1 1g.6gb@2 1g.6gb@3", []int{3, 4, 5, 6}},
		{"A30, two 1g and a 2g", cutA30, "1g.6gb@0 1g.6gb@1 2g.12gb@2", []int{3, 4, 2}},
		{"RTX PRO 6000 of twelve slices", cutRTX, "2g.48gb@0 1g.24gb@6 1g.24gb@9", []int{1, 5, 6}},
		{"RTX PRO 6000 in quarters", cutRTX, "1g.24gb@0 1g.24gb@3 1g.24gb@6 1g.24gb@9", []int{3, 4, 5, 6}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := open(t, machine(t, tc.machine), Admin("test"))
			var ids []int
			for _, gi := range f.createAll(tc.slots) {
				info, err := f.GIInfo(gi)
				f.ok(err)
				ids = append(ids, info.ID)
			}
			if diff := cmp.Diff(tc.ids, ids); diff != "" {
				t.Errorf("ids (-want +got):\n%s", diff)
			}
		})
	}
}

// createAll makes "1g.10gb@0 3g.40gb@4" on the first GPU.
func (f fixture) createAll(slots string) []devices.GIHandle {
	f.t.Helper()
	gpu := f.at(0)
	var made []devices.GIHandle
	for s := range strings.FieldsSeq(slots) {
		var start int
		name, rest, _ := strings.Cut(s, "@")
		if _, err := fmt.Sscan(rest, &start); err != nil {
			f.t.Fatal(err)
		}
		made = append(made, f.create(gpu, name, start))
	}
	return made
}

func TestEnginesRunOut(t *testing.T) {
	for _, tc := range []struct {
		name, machine, have, want string
		fits                      bool
	}{
		{"A30 has one JPEG engine, so one +me in all", cutA30, "1g.6gb+me@0", "2g.12gb+me@2", false},
		{"+me beside a plain one", cutA30, "1g.6gb+me@0", "2g.12gb@2", true},
		{"all media engines leave none for a plain one", cutRTX, "2g.48gb+me.all@0", "1g.24gb@6", false},
		{"all media engines leave room for one without", cutRTX, "2g.48gb+me.all@0", "1g.24gb-me@6", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := open(t, machine(t, tc.machine), Admin("test"))
			f.createAll(tc.have)
			var start int
			name, rest, _ := strings.Cut(tc.want, "@")
			if _, err := fmt.Sscan(rest, &start); err != nil {
				t.Fatal(err)
			}
			_, err := f.try(f.at(0), name, start)
			if tc.fits {
				f.ok(err)
				return
			}
			f.wants(err, devices.ErrInsufficientResources)
		})
	}
}

// No product's maximum is below what its engines allow, so this one is made up.
func TestCountRunsOut(t *testing.T) {
	f := open(t, machine(t, `
models:
  x:
    memorySlices: 2
    computeSlices: 2
    profiles:
    - {name: 1g, id: 1, enum: 0, slices: 1, maxInstances: 1, size: 1, starts: [0, 1]}
    - {name: 2g, id: 2, enum: 1, slices: 2, maxInstances: 1, size: 2, starts: [0]}
gpus: [{model: x, mig: true}]
`), Admin("test"))
	f.create(f.at(0), "1g", 0)
	_, err := f.try(f.at(0), "1g", 1)
	f.wants(err, devices.ErrInsufficientResources)
}

func TestComputeInstancesDivideTheirGI(t *testing.T) {
	f := open(t, machine(t, normalH100), Admin("test"))
	three, double := f.create(f.at(0), "3g.40gb", 4), f.create(f.at(0), "1g.20gb", 0)
	var made []devices.CIInfo
	for _, id := range []int{1, 0} { // 2c first, then 1c beside it
		ci, err := f.CreateCI(three, id)
		f.ok(err)
		info, err := f.CIInfo(ci)
		f.ok(err)
		made = append(made, info)
	}
	want := []devices.CIInfo{
		{ID: 0, ProfileID: 1, Placement: devices.Placement{Start: 0, Size: 2}},
		{ID: 1, ProfileID: 0, Placement: devices.Placement{Start: 2, Size: 1}},
	}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("compute instances (-want +got):\n%s", diff)
	}
	_, err := f.CreateCI(three, 0)
	f.wants(err, devices.ErrInsufficientResources)
	_, err = f.CreateCI(double, 0) // the double-memory 1g is filled by profile 7, and has no other
	f.wants(err, devices.ErrNotSupported)
	_, err = f.CreateCI(double, 7)
	f.ok(err)
	f.dumps("gpu-0 h100-sxm5-80gb mig=on [1g.20gb@0 3g.40gb@4{2c 1c}]\n")
}

func TestMIGUUIDsComeBackOrNot(t *testing.T) {
	for _, tc := range []struct {
		name    string
		machine string
		reuse   bool
	}{
		{"as the driver does by default", normalH100, true},
		{"unique per creation", "uuidReuse: false\n" + normalH100, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := open(t, machine(t, tc.machine), Admin("test"))
			var uuids []string
			for range 2 {
				gi := f.create(f.at(0), "1g.10gb", 0)
				ci, err := f.CreateCI(gi, 0)
				f.ok(err)
				mig, err := f.MIGDevice(f.at(0), 0)
				f.ok(err)
				uuid, err := f.UUID(mig)
				f.ok(err)
				uuids = append(uuids, uuid)
				f.ok(f.DestroyCI(ci))
				f.ok(f.DestroyGI(gi))
			}
			if (uuids[0] == uuids[1]) != tc.reuse {
				t.Errorf("uuids are %v, reuse is %t", uuids, tc.reuse)
			}
		})
	}
}

func TestMIGDeviceAnswersForItself(t *testing.T) {
	f := open(t, machine(t, "gpus:\n- {model: h100-sxm5-80gb, instances: [1g.10gb@0, 3g.40gb@4]}\n"), Admin("test"))
	mig, err := f.MIGDevice(f.at(0), 1) // GI ids 2 (3g@4) and 7 (1g@0)
	f.ok(err)
	gi, ci, err := f.MIGDeviceIDs(mig)
	f.ok(err)
	name, err := f.Name(mig)
	f.ok(err)
	memory, err := f.Memory(mig)
	f.ok(err)
	index, err := f.Index(mig)
	f.ok(err)
	got := fmt.Sprintf("%d/%d %q %d MiB index %d", gi, ci, name, memory>>20, index)
	if want := `7/0 "NVIDIA H100 80GB HBM3 MIG 1g.10gb" 9984 MiB index 1`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	_, err = f.BusID(mig)
	f.wants(err, devices.ErrInvalidArgument)
	_, _, err = f.MIGDeviceIDs(f.at(0))
	f.wants(err, devices.ErrInvalidArgument)
}

func TestListsAreByProfile(t *testing.T) {
	f := open(t, machine(t, "gpus:\n- {model: h100-sxm5-80gb, instances: [1g.10gb@1, 3g.40gb@4, 1g.10gb@0]}\n"), Admin("test"))
	counts := map[int]int{}
	for _, id := range []int{0, 5, 9, 14, 15, 19, 20} {
		gis, err := f.GIs(f.at(0), id)
		f.ok(err)
		counts[id] = len(gis)
	}
	if diff := cmp.Diff(map[int]int{0: 0, 5: 0, 9: 1, 14: 0, 15: 0, 19: 2, 20: 0}, counts); diff != "" {
		t.Errorf("instances per profile (-want +got):\n%s", diff)
	}
	if _, err := f.GIs(f.at(0), 999); err == nil {
		t.Error("a profile that does not exist has a list")
	}
	names := []string{}
	for _, i := range f.machine.GPUs()[0].Instances {
		names = append(names, fmt.Sprintf("%s=%d/%d", i.Slot, i.GI, i.CI))
	}
	if want := []string{"3g.40gb@4=2/0", "1g.10gb@0=7/0", "1g.10gb@1=8/0"}; !slices.Equal(names, want) {
		t.Errorf("instances are %v, want %v", names, want)
	}
}

// What the calls answer when there is nothing to say.
func TestCallsWithoutAnAnswer(t *testing.T) {
	f := open(t, machine(t, "gpus:\n- {model: h100-sxm5-80gb, instances: [1g.10gb@0]}\n- {model: l4}\n- {model: a30-24gb}\n"), Admin("test"))
	cut, l4, off := f.at(0), f.at(1), f.at(2)
	gis, err := f.GIs(cut, 19)
	f.ok(err)
	answers := map[string]error{}
	_, answers["GPUByIndex -1 INVALID_ARGUMENT"] = f.GPUByIndex(-1)
	_, answers["GPUByBusID INVALID_ARGUMENT"] = f.GPUByBusID("65")
	_, answers["GPUByUUID NOT_FOUND"] = f.GPUByUUID("")
	_, answers["GIProfile 18 INVALID_ARGUMENT"] = f.GIProfile(cut, devices.GIProfileEnums)
	_, answers["GIProfile 5 NOT_SUPPORTED"] = f.GIProfile(cut, 5)
	_, answers["GIPlacements 1 INVALID_ARGUMENT"] = f.GIPlacements(cut, 1)
	_, answers["GIPlacements on l4 NOT_SUPPORTED"] = f.GIPlacements(l4, 0)
	_, answers["GIs while off NOT_SUPPORTED"] = f.GIs(off, 0)
	_, answers["CIProfile -1 INVALID_ARGUMENT"] = f.CIProfile(gis[0], -1)
	_, answers["CIProfile 5 NOT_SUPPORTED"] = f.CIProfile(gis[0], 5)
	_, answers["CIs 5 NOT_SUPPORTED"] = f.CIs(gis[0], 5)
	_, answers["CIs of a GPU INVALID_ARGUMENT"] = f.CIs(devices.GIHandle(cut), 0)
	_, answers["CreateCI on a GPU INVALID_ARGUMENT"] = f.CreateCI(devices.GIHandle(cut), 0)
	answers["DestroyCI of a GPU INVALID_ARGUMENT"] = f.DestroyCI(devices.CIHandle(cut))
	_, answers["MIGDevice 1 NOT_FOUND"] = f.MIGDevice(cut, 1)
	_, answers["MIGDevice 7 INVALID_ARGUMENT"] = f.MIGDevice(cut, 7)
	_, answers["MIGDevice while off NOT_FOUND"] = f.MIGDevice(off, 0)
	_, answers["MIGDevice on l4 NOT_SUPPORTED"] = f.MIGDevice(l4, 0)
	for call, err := range answers {
		if err == nil || !strings.HasSuffix(call, strings.TrimPrefix(err.Error(), "driver answered ")) {
			t.Errorf("%s: got %v", call, err)
		}
	}
}
