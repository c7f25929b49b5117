// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

func TestMedian(t *testing.T) {
	for _, tc := range []struct {
		why    string
		values []float64
		want   float64
	}{
		{"one value is its own", []float64{7}, 7},
		{"the middle one, whatever the order", []float64{9, 1, 5}, 5},
		{"the mean of the middle two", []float64{4, 1, 3, 100}, 3.5},
	} {
		before := append([]float64{}, tc.values...)
		if got := median(tc.values); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.why, got, tc.want)
		}
		if !cmp.Equal(before, tc.values) {
			t.Errorf("%s: the values are in another order now", tc.why)
		}
	}
}

func TestEachStopsAtTheFirstError(t *testing.T) {
	calls := 0
	_, err := each(5, func(i int) error {
		if calls++; i == 2 {
			return errors.ErrUnsupported
		}
		return nil
	})
	if !errors.Is(err, errors.ErrUnsupported) || calls != 3 {
		t.Errorf("%v after %d calls, want the third's error", err, calls)
	}
	const pause = 3 * time.Millisecond
	took, err := each(3, func(int) error { <-time.After(pause); return nil })
	if err != nil || took < 3 || took > 1000 {
		t.Errorf("%v ms, %v; each call takes at least %v", took, err, pause)
	}
}

func TestVerdictsAndTable(t *testing.T) {
	list := []row{
		{key: "a", title: "at the budget", unit: "ms", budget: 2, peer: "7"},
		{key: "b", title: "above it", unit: "MB", budget: 2},
		{key: "c", title: "only printed", unit: "MB"},
		{key: "d", title: "for a driver at once", unit: "ms", budget: 25, atOnce: true},
		{key: "e", title: "not measured", unit: "ms", budget: 1},
	}
	measured := []condition{
		{"0s", figures{"a": {1, 2, 1000}, "b": {1, 2.001, 3}, "c": {512.34}, "d": {25.5}}},
		{"1ms", figures{"d": {212}}},
	}
	var out strings.Builder
	misses, err := write(&out, list, measured)
	if err != nil || misses != 2 {
		t.Errorf("%d misses, %v; want b and d at once", misses, err)
	}
	got := []string{}
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"what latency budget peer median lowest to highest unit",
		"at the budget 0s <= 2 7 2 1 to 1000 ms ok",
		"above it 0s <= 2 - 2 1 to 3 MB MISS",
		"only printed 0s - - 512 512 to 512 MB",
		"for a driver at once 0s <= 25 - 25.5 25.5 to 25.5 ms MISS",
		"for a driver at once 1ms <= 25 - 212 212 to 212 ms driver",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Every row has a key of its own, a title and a unit.
func TestRows(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows {
		if seen[r.key] || r.title == "" || r.unit == "" {
			t.Errorf("row %+v", r)
		}
		seen[r.key] = true
	}
	if len(seen) != 19 {
		t.Errorf("%d rows, want 19", len(seen))
	}
}

func TestTemplate(t *testing.T) {
	values := map[string]string{"state-dir": "/s", "config": "/c.yaml"}
	got, err := expand([]string{"p", "--state={state-dir}/x", "{config}:{config}", "{Not a place}"}, values)
	if diff := cmp.Diff([]string{"p", "--state=/s/x", "/c.yaml:/c.yaml", "{Not a place}"}, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	_, err = expand([]string{"{kubelet}", "{config}"}, values)
	if err == nil || err.Error() != "unknown {kubelet}; there are {config}, {state-dir}" {
		t.Errorf("a name that nobody knows: %v", err)
	}
	if err := checkTemplate(ours); err != nil {
		t.Errorf("our own: %v", err)
	}
}

func TestPlaces(t *testing.T) {
	disk, memory, ram := place{"/d", "ext4"}, place{"/m", "tmpfs"}, place{"/r", "ramfs"}
	for _, tc := range []struct {
		why     string
		places  []place
		want    place
		refused string
		fails   bool
	}{
		{"the first on a disk", []place{disk, memory}, disk, "", false},
		{"another, and it is said", []place{memory, ram, disk}, disk, "not measured on /m (tmpfs), /r (ramfs), where fsync costs nothing; taking /d (ext4)", false},
		{"nowhere", []place{memory}, place{}, "", true},
	} {
		got, refused, err := choose(tc.places)
		if got != tc.want || refused != tc.refused || (err != nil) != tc.fails {
			t.Errorf("%s: %v, %q, %v", tc.why, got, refused, err)
		}
	}
	if p, err := placeOf("/dev/shm"); err == nil && !p.inMemory() {
		t.Errorf("/dev/shm is on %s", p.fileSystem)
	}
}

func TestProcessFiles(t *testing.T) {
	const stat = "42 (a (b) c) S 1 42 42 0 -1 4194560 100 0 5 0 17 4 0 0 20 0 9 0 1000 2000000 300"
	if got, err := parseTicks(stat); err != nil || got != 21 {
		t.Errorf("%d, %v; want 17 and 4", got, err)
	}
	for _, odd := range []string{"", "42 (a", "42 (a) S 1 2", "42 (a) S 1 42 42 0 -1 4194560 100 0 5 0 x 4 0"} {
		if got, err := parseTicks(odd); err == nil {
			t.Errorf("%q: %d", odd, got)
		}
	}
	anonymous, total, err := parseMemory("Name:\tp\nVmRSS:\t   2000 kB\nRssAnon:\t    1000 kB\nThreads:\t9\n")
	if err != nil || anonymous != 1.024 || total != 2.048 {
		t.Errorf("%v, %v, %v; want 1,000 and 2,000 KiB in MB", anonymous, total, err)
	}
	for _, odd := range []string{"", "VmRSS:\t2000 kB\n", "VmRSS:\tmany kB\nRssAnon:\t1 kB\n"} {
		if _, _, err := parseMemory(odd); err == nil {
			t.Errorf("%q is taken", odd)
		}
	}
}

func TestAnswersAreChecked(t *testing.T) {
	preferred := func(containers ...[]string) *pluginapi.PreferredAllocationResponse {
		answer := &pluginapi.PreferredAllocationResponse{}
		for _, ids := range containers {
			answer.ContainerResponses = append(answer.ContainerResponses, &pluginapi.ContainerPreferredAllocationResponse{DeviceIDs: ids})
		}
		return answer
	}
	for _, tc := range []struct {
		why    string
		answer *pluginapi.PreferredAllocationResponse
		fine   bool
	}{
		{"two of three", preferred([]string{"c", "a"}), true},
		{"nobody", preferred(), false},
		{"too few", preferred([]string{"a"}), false},
		{"one twice", preferred([]string{"a", "a"}), false},
		{"one twice beside another", preferred([]string{"a", "a", "b"}), false},
		{"one that is not available", preferred([]string{"a", "x"}), false},
	} {
		if err := checkPreferred(tc.answer, []string{"a", "b", "c"}, 2); (err == nil) != tc.fine {
			t.Errorf("%s: %v", tc.why, err)
		}
	}
	gives := &pluginapi.ContainerAllocateResponse{Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": "GPU-1"}}
	for _, tc := range []struct {
		why    string
		answer []*pluginapi.ContainerAllocateResponse
		fine   bool
	}{
		{"an environment is enough", []*pluginapi.ContainerAllocateResponse{gives}, true},
		{"nothing", []*pluginapi.ContainerAllocateResponse{{}}, false},
		{"for nobody", nil, false},
		{"for two", []*pluginapi.ContainerAllocateResponse{gives, gives}, false},
	} {
		if err := checkAllocated(&pluginapi.AllocateResponse{ContainerResponses: tc.answer}); (err == nil) != tc.fine {
			t.Errorf("%s: %v", tc.why, err)
		}
	}
}

func TestUndisturbedAreThoseThatOfferTheSame(t *testing.T) {
	for _, e := range edits {
		if diff := cmp.Diff([]string{gpus}, e.undisturbed()); diff != "" {
			t.Errorf("%s: %s", e.key, diff)
		}
	}
}

func TestCommandLine(t *testing.T) {
	b, _, err := parse([]string{"-configs", "testdata", "-repeat", "2", "p", "--x={config}"})
	if err != nil || b.repeat != 2 || !cmp.Equal(b.template, []string{"p", "--x={config}"}) || len(b.configs) != 5 {
		t.Errorf("%+v, %v", b, err)
	}
	for why, args := range map[string][]string{
		"-configs: / has no whole.yaml": {"-configs", "/"},
		"must be above 0":               {"-configs", "testdata", "-repeat", "0"},
		"unknown {conf}":                {"-configs", "testdata", "p", "{conf}"},
	} {
		if _, _, err := parse(args); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v: %v, want %q", args, err, why)
		}
	}
}
