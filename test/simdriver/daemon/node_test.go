// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"testing"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

// What the daemon reads for itself hits no fault and is not counted on the machine.
func TestTheDataSheetDisturbsNothing(t *testing.T) {
	n, err := LoadYAML([]byte(`
driver: {version: "1.2", state: unloaded}
latencies: {GIProfile: 1h}
faults: [{nth: 1, code: IN_USE}]
gpus: [{model: h100-sxm5-80gb, lost: true}]
`))
	if err != nil {
		t.Fatal(err)
	}
	if n.loaded || n.data.version != "1.2" || n.data.memory[0] == 0 || len(n.data.profiles[0]) == 0 {
		t.Errorf("node is %+v", n.data)
	}
	if got := n.Machine.Total("data sheet"); got != 0 {
		t.Errorf("%d calls on the machine", got)
	}
	if err := n.Machine.Open(sim.Admin("test")).Init(); err != devices.ErrInUse { //nolint:errorlint // the seam's errors are codes
		t.Errorf("first call: %v, want the machine file's fault", err)
	}
}

func TestBadMachinesAreRefused(t *testing.T) {
	for _, spec := range []string{"", "8xvoodoo", "@/does/not/exist"} {
		if _, err := Load(spec); err == nil {
			t.Errorf("spec %q is accepted", spec)
		}
	}
	if _, err := LoadYAML([]byte("gpus: {")); err == nil {
		t.Error("broken YAML is accepted")
	}
}
