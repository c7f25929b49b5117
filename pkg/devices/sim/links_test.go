// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/pkg/devices"
)

// joined prints how each pair of GPUs is joined, by number: the level, and the NVLinks between them.
func joined(f fixture, gpus int) []string {
	f.t.Helper()
	var lines []string
	for a := range gpus {
		for b := a + 1; b < gpus; b++ {
			level, err := f.CommonAncestor(f.at(a), f.at(b))
			f.ok(err)
			back, err := f.CommonAncestor(f.at(b), f.at(a))
			f.ok(err)
			if level != back {
				f.t.Errorf("%d-%d is level %d, %d-%d level %d", a, b, level, b, a, back)
			}
			lines = append(lines, fmt.Sprintf("%d-%d %d %d", a, b, level, linksTo(f, a, b)))
		}
	}
	return lines
}

func linksTo(f fixture, a, b int) (n int) {
	f.t.Helper()
	busID, err := f.BusID(f.at(b))
	f.ok(err)
	for link := range devices.NVLinks {
		active, err := f.NVLinkActive(f.at(a), link)
		if err != nil || !active {
			continue
		}
		if end, err := f.NVLinkBusID(f.at(a), link); err == nil && end == busID {
			n++
		}
	}
	return n
}

// The machines whose wiring is published, checked by their figures: NVLinks of a GPU, and pairs of each kind.
func TestNamedTopologies(t *testing.T) {
	for _, tc := range []struct {
		name           string
		gpus           int
		links          int // NVLinks of every GPU
		pairs          map[string]int
		strong, joined int // NVLinks of the pairs 0-3 and 0-1
	}{
		{"dgx1-pascal", 8, 4, map[string]int{"10 1": 4, "30 1": 8, "50 0": 12, "50 1": 4}, 1, 1},
		{"dgx1-volta", 8, 6, map[string]int{"10 1": 2, "10 2": 2, "30 1": 4, "30 2": 4, "50 0": 12, "50 1": 2, "50 2": 2}, 2, 1},
		{"bridged-pairs", 8, 4, map[string]int{"40 4": 4, "40 0": 8, "50 0": 16}, 0, 4},
		{"numa", 8, 0, map[string]int{"40 0": 12, "50 0": 16}, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := open(t, machine(t, fmt.Sprintf("gpus: [{model: l40s, count: %d}]\nlinks: {topology: %s}\n", tc.gpus, tc.name)), Admin("test"))
			pairs := map[string]int{}
			for _, line := range joined(f, tc.gpus) {
				_, kind, _ := strings.Cut(line, " ")
				pairs[kind]++
			}
			if diff := cmp.Diff(tc.pairs, pairs); diff != "" {
				t.Errorf("pairs (-want +got):\n%s", diff)
			}
			for a := range tc.gpus {
				n := 0
				for b := range tc.gpus {
					if a != b {
						n += linksTo(f, a, b)
					}
				}
				if n != tc.links {
					t.Errorf("GPU %d has %d NVLinks, want %d", a, n, tc.links)
				}
			}
			if linksTo(f, 0, 3) != tc.strong || linksTo(f, 0, 1) != tc.joined {
				t.Errorf("0-3 has %d NVLinks, 0-1 %d", linksTo(f, 0, 3), linksTo(f, 0, 1))
			}
		})
	}
}

func TestFabric(t *testing.T) {
	for _, tc := range []struct {
		name, file string
		switched   int
	}{
		{"HGX H100", "gpus: [{model: h100-sxm5-80gb, count: 2}]", 18},
		{"HGX A100", "gpus: [{model: a100-sxm4-40gb, count: 2}]", 12},
		{"cards", "gpus: [{model: h100-pcie-80gb, count: 2}]", 0},
		{"cards that are put on one", "gpus: [{model: h100-pcie-80gb, count: 2}]\nlinks: {topology: nvswitch}", 12},
		{"boards that are taken off", "gpus: [{model: h100-sxm5-80gb, count: 2}]\nlinks: {topology: numa}", 0},
		{"a product of one's own", "models: {x: {nvlinks: 7}}\ngpus: [{model: x, count: 2}]", 7},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := open(t, machine(t, tc.file+"\n"), Admin("test"))
			n := 0
			for link := range devices.NVLinks {
				end, err := f.NVLinkEnd(f.at(1), link)
				switch {
				case err == nil && end == devices.EndSwitch:
					n++
				case tc.switched == 0:
					f.wants(err, devices.ErrNotSupported)
				default:
					f.wants(err, devices.ErrInvalidArgument)
				}
			}
			if n != tc.switched {
				t.Errorf("%d links into NVSwitch, want %d", n, tc.switched)
			}
		})
	}
}

func TestLinksToALostGPUAreDown(t *testing.T) {
	m := machine(t, "gpus: [{model: l40s, count: 2}]\nlinks: {topology: bridged-pairs}\n")
	f := open(t, m, Admin("test"))
	first, second := f.at(0), f.at(1)
	f.ok(m.Lose(1))
	active, err := f.NVLinkActive(first, 0)
	f.ok(err)
	end, err := f.NVLinkEnd(first, 0)
	f.ok(err)
	if active || end != devices.EndUnknown {
		t.Errorf("active %t, end %d", active, end)
	}
	_, err = f.NVLinkBusID(first, 0)
	f.wants(err, devices.ErrNotSupported)
	_, err = f.CommonAncestor(first, second)
	f.wants(err, devices.ErrLost)
	_, err = f.CommonAncestor(second, first)
	f.wants(err, devices.ErrLost)
	_, err = f.NVLinkActive(first, devices.NVLinks)
	f.wants(err, devices.ErrInvalidArgument)
}

func TestLinksFileErrors(t *testing.T) {
	gpus := "gpus: [{model: l40s, count: 3}]\n"
	for _, tc := range []struct{ name, file, want string }{
		{"unknown key", "links:\n  topolgy: numa\n", `line 3: unknown key "topolgy"; valid keys: pairs, topology`},
		{"unknown key of a pair", "links:\n  pairs:\n  - {gpu: [0, 1]}\n", `line 4: unknown key "gpu"; valid keys: gpus, nvlinks, pcie`},
		{"unknown topology", "links:\n  topology: dgx3\n", `line 3: links: unknown topology "dgx3"; valid: bridged-pairs, dgx1-pascal, dgx1-volta, numa, nvswitch`},
		{"too few GPUs", "links: {topology: dgx1-volta}\n", "the topology is of 8 GPUs; here are 3"},
		{"odd GPUs", "links: {topology: bridged-pairs}\n", "an even number of GPUs; here are 3"},
		{"one GPU is no pair", "links:\n  pairs:\n  - {gpus: [1]}\n", "line 4: links: gpus is [1]; valid: two of 0 to 2"},
		{"no GPUs", "links:\n  pairs:\n  - {pcie: node}\n", "line 4: links: gpus is []"},
		{"itself", "links: {pairs: [{gpus: [1, 1]}]}\n", "gpus is [1 1]"},
		{"no such GPU", "links: {pairs: [{gpus: [1, 3]}]}\n", "gpus is [1 3]; valid: two of 0 to 2"},
		{"negative GPU", "links: {pairs: [{gpus: [-1, 2]}]}\n", "gpus is [-1 2]"},
		{"level", "links: {pairs: [{gpus: [0, 1], pcie: PIX}]}\n", `pcie is "PIX"; valid: hostbridge, internal, multiple, node, single, system`},
		{"links of a pair", "links: {pairs: [{gpus: [0, 1], nvlinks: 99}]}\n", "nvlinks is 99; valid: 0 to 36"},
		{"links of a GPU", "links: {pairs: [{gpus: [0, 1], nvlinks: 30}, {gpus: [2, 1], nvlinks: 30}]}\n", "GPU 1 has 60 NVLinks, at most 36"},
		{"links of a product", "models: {x: {nvlinks: 99}}\n", "nvlinks is 99; valid: 0 to 72"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := ParseYAML([]byte(gpus + tc.file)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
