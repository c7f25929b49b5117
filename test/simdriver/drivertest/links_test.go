// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package drivertest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
	"gpuslice/pkg/topology"
	"gpuslice/test/simdriver/library"
)

func links(t *testing.T, d devices.Driver) topology.Matrix {
	t.Helper()
	hw := devices.New(d, devices.Options{})
	n := must[devices.Node](t)(hw.Snapshot(t.Context()))
	return hw.ReadLinks(t.Context(), n.GPUs)
}

// The links that are read through the library are those of the machine read directly, also with the library of an old driver,
// which does not tell what a link ends at; then those into NVSwitch are not known.
func TestLinksThroughTheLibrary(t *testing.T) {
	for _, tc := range []struct {
		name, machine string
		age           library.Age
	}{
		{"NVSwitch", "gpus: [{model: h100-sxm5-80gb, count: 8}]\n", library.New},
		{"DGX-1", "gpus: [{model: l40s, count: 8}]\nlinks: {topology: dgx1-volta}\n", library.New},
		{"pairs, old library", "gpus: [{model: l40s, count: 4}]\nlinks: {topology: bridged-pairs}\n", library.Old},
		{"cards", "gpus: [{model: t4, count: 4}]\n", library.New},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := startAged(t, tc.machine, tc.age)
			machine := must[*sim.Machine](t)(sim.ParseYAML([]byte(tc.machine)))
			defer machine.Close()
			direct := links(t, machine.Open(sim.Admin("test")))
			got := links(t, n.process("client", false).Driver())
			if diff := cmp.Diff(direct, got); diff != "" || len(got) == 0 {
				t.Errorf("%d links (-machine +library):\n%s", len(got), diff)
			}
		})
	}
}
