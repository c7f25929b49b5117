// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/test/simdriver/library"
)

// A function that only one side knows would answer FUNCTION_NOT_FOUND, or never be asked.
func TestLibraryAndDaemonKnowTheSameFunctions(t *testing.T) {
	answered := slices.Sorted(maps.Keys(handlers))
	answered = slices.DeleteFunc(answered, func(symbol string) bool { return strings.HasPrefix(symbol, "nvidia-smi ") })
	if diff := cmp.Diff(library.Implemented(), answered); diff != "" {
		t.Errorf("functions (-library +daemon):\n%s", diff)
	}
	if len(answered) < 60 {
		t.Errorf("only %d functions", len(answered))
	}
}

func TestHandlesSayWhatTheyName(t *testing.T) {
	kinds := []uint64{deviceHandle, giHandle, ciHandle, setHandle, placeHandle}
	for _, kind := range kinds {
		for _, other := range kinds {
			n, err := numberOf(other, handle(kind, 4711))
			if known := err == nil && n == 4711; known != (kind == other) {
				t.Errorf("handle of kind %d read as kind %d: %d, %v", kind, other, n, err)
			}
		}
	}
	at := place{number: 1023, mig: true, gi: 14, ci: 7}
	n, err := numberOf(placeHandle, handleOfPlace(at))
	if err != nil || placeOfHandle(n) != at {
		t.Errorf("place %+v comes back as %+v, %v", at, placeOfHandle(n), err)
	}
}

func TestASlotSaysHowItIsDivided(t *testing.T) {
	dump := "gpu-0 h100-sxm5-80gb mig=on [2g.20gb@0{1c 1c} 1g.10gb@2{} 3g.40gb@4*]\ngpu-1 h100-sxm5-80gb mig=on [3g.40gb@4{1c 2c}*]\n"
	for _, tt := range []struct {
		index int
		slot  string
		want  []int
	}{
		{0, "2g.20gb@0", []int{1, 1}},
		{0, "1g.10gb@2", nil},
		{0, "3g.40gb@4", nil},
		{1, "3g.40gb@4", []int{1, 2}},
		{9, "3g.40gb@4", nil},
	} {
		if got := dividedSlot(dump, tt.index, tt.slot); !slices.Equal(got, tt.want) {
			t.Errorf("GPU %d, %s: %v, want %v", tt.index, tt.slot, got, tt.want)
		}
	}
}

func TestBusIDsAreTakenInEveryForm(t *testing.T) {
	const full = "00000000:3B:00.0"
	for id, want := range map[string]bool{
		full: true, "0000:3b:00.0": true, "0:3B:00.0": true, "00000000:3C:00.0": false, "3B:00.0": false, "": false,
	} {
		if got := sameBusID(full, id); got != want {
			t.Errorf("%q: %t, want %t", id, got, want)
		}
	}
}
