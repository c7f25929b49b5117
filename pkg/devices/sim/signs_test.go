// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"fmt"
	"strings"
	"testing"

	"gpuslice/pkg/devices"
)

// What a GPU says of itself, and what a reset, a load of the driver and a boot make of it: typed from the descriptions of the fields
// and actions in nvml.h.
func TestSigns(t *testing.T) {
	reset := func(m *Machine) error { return m.Reset(0) }
	reload := func(m *Machine) error {
		if err := m.UnloadDriver(); err != nil {
			return err
		}
		m.LoadDriver("")
		return nil
	}
	boot := func(m *Machine) error { m.Reboot(); return nil }
	for _, tc := range []struct {
		name   string
		model  string
		driver string
		signs  string
		do     func(*Machine) error
		want   string // action, uncorrected, remap pending, remap failed, retired pending; - where it is not supported
	}{
		{"all well", "h100-sxm5-80gb", "595.45.04", "", nil, "0 0 0 0 -"},
		{"before recovery actions", "h100-sxm5-80gb", "560.35.03", "recovery-action: reset", nil, "- 0 0 0 -"},
		{"before row remapping", "t4", "595.45.04", "retired-pending: '1'", nil, "0 0 - - 1"},
		{"a reset does what it is for", "h100-sxm5-80gb", "595.45.04", "recovery-action: reset, uncorrected: '3', remap-pending: '1', remap-failed: '1'", reset, "0 0 0 1 -"},
		{"a reset is not enough", "h100-sxm5-80gb", "595.45.04", "recovery-action: reboot", reset, "2 0 0 0 -"},
		{"drained and reset", "h100-sxm5-80gb", "595.45.04", "recovery-action: drain-and-reset", reset, "0 0 0 0 -"},
		{"a load of the driver", "h100-sxm5-80gb", "595.45.04", "recovery-action: reboot, uncorrected: '3'", reload, "0 0 0 0 -"},
		{"a boot", "h100-sxm5-80gb", "595.45.04", "recovery-action: system-reboot", boot, "0 0 0 0 -"},
		{"a number that nobody knows", "h100-sxm5-80gb", "595.45.04", "recovery-action: '17'", nil, "17 0 0 0 -"},
	} {
		m, err := ParseYAML(fmt.Appendf(nil, "driver: {version: %s}\ngpus: [{model: %s, signs: {%s}}]\n", tc.driver, tc.model, tc.signs))
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if tc.do != nil {
			if err := tc.do(m); err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
		}
		d := m.Open(Admin("a"))
		if err := d.Init(); err != nil {
			t.Fatal(err)
		}
		gpu, err := d.GPUByIndex(0)
		if err != nil {
			t.Fatal(err)
		}
		fields, err := d.Fields(gpu, []int{devices.FieldRecoveryAction, devices.FieldUncorrected, devices.FieldRemapPending, devices.FieldRemapFailed, devices.FieldRetiredPending})
		if err != nil {
			t.Fatal(err)
		}
		words := []string{}
		for _, f := range fields {
			if f.Code == 0 {
				words = append(words, fmt.Sprint(f.Value))
			} else {
				words = append(words, "-")
			}
		}
		if got := strings.Join(words, " "); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
		m.Close()
	}
	if _, err := ParseYAML([]byte("gpus: [{model: l40s, signs: {heat: '1'}}]\n")); err == nil || !strings.Contains(err.Error(), "valid signs: heat-limited, power-limited, recovery-action") {
		t.Errorf("an unknown sign: %v", err)
	}
	if _, err := ParseYAML([]byte("gpus: [{model: l40s, signs: {recovery-action: maybe}}]\n")); err == nil || !strings.Contains(err.Error(), "none, reset, reboot") {
		t.Errorf("an unknown action: %v", err)
	}
}
