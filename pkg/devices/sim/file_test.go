// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuslice/pkg/devices"
)

func TestParseSpec(t *testing.T) {
	for spec, want := range map[string]string{
		"1xt4":                 "gpu-0 t4\n",
		"2xa30-24gb,1xl40s":    "gpu-0 a30-24gb mig=off\ngpu-1 a30-24gb mig=off\ngpu-2 l40s\n",
		" 1xl4 , 1xa30-24gb  ": "gpu-0 l4\ngpu-1 a30-24gb mig=off\n",
	} {
		m, err := Parse(spec)
		if err != nil {
			t.Errorf("%q: %v", spec, err)
			continue
		}
		if got := m.Dump(); got != want {
			t.Errorf("%q is\n%swant\n%s", spec, got, want)
		}
	}
	for spec, want := range map[string]string{
		"":                          "is not of the form <count>x<model>",
		"h100-sxm5-80gb":            "is not of the form <count>x<model>",
		"0xl4":                      "asks for 0 GPUs",
		"99999999999999999999xl4":   "valid counts",
		"2000xl4":                   "1 to 1024",
		"1000xl4,1000xt4":           "1 to 1024",
		"8xh100":                    `unknown model "h100"; valid models: a100-sxm4-40gb, a100-sxm4-80gb, a30-24gb`,
		"1xl4,,":                    "is not of the form",
		"@/nonexistent/machine.yml": "no such file",
	} {
		if _, err := Parse(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", spec, err, want)
		}
	}
}

func TestDefaults(t *testing.T) {
	describe := func(m *Machine) []string {
		var lines []string
		for _, g := range m.GPUs() {
			lines = append(lines, fmt.Sprintf("%d minor=%d %s numa=%d %08X", g.Index, g.Minor, g.BusID, g.NUMA, g.PCIDeviceID))
		}
		return lines
	}
	want := []string{
		"0 minor=0 00000000:10:00.0 numa=0 233010DE", "1 minor=1 00000000:18:00.0 numa=0 233010DE",
		"2 minor=2 00000000:20:00.0 numa=1 233010DE", "3 minor=3 00000000:28:00.0 numa=1 233010DE",
	}
	if diff := cmp.Diff(want, describe(machine(t, "4xh100-sxm5-80gb"))); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	one, two := machine(t, "2xl4"), machine(t, "seed: 1\ngpus: [{model: l4, count: 2}]\n")
	if one.GPUs()[0].UUID != machine(t, "2xl4").GPUs()[0].UUID {
		t.Error("the same spec gives other UUIDs")
	}
	uuids := map[string]bool{}
	for _, g := range append(one.GPUs(), two.GPUs()...) {
		uuids[g.UUID] = true
	}
	if len(uuids) != 4 || one.BootID() == two.BootID() {
		t.Errorf("seeds share names: %v", uuids)
	}
	if n := len(machine(t, "100xl4").GPUs()); n != 100 {
		t.Errorf("%d GPUs", n)
	}
}

const everything = `
seed: 7
bootID: first
driver: {version: "600.1", cuda: "14.2", profileNames: false}
models:
  acme-1:
    name: ACME One
    architecture: 20
    brand: 14
    computeCapability: "30.1"
    pciDeviceID: 0x999910DE
    memoryMiB: 65536
    sms: 100
    memorySlices: 4
    computeSlices: 4
    modeSurvivesReboot: true
    profiles:
    - {name: 1g.16gb, id: 40, enum: 0, slices: 1, maxInstances: 4, sms: 25, memoryMiB: 16000, size: 1, starts: [0, 1, 2, 3]}
    - {name: 4g.64gb, id: 43, enum: 3, slices: 4, maxInstances: 1, sms: 100, memoryMiB: 65000, size: 4, starts: [0]}
gpus:
- model: h100-sxm5-80gb
  uuid: GPU-one
  minor: 5
  pci: "0000:ff:00.0"
  numa: 3
  swappedHalves: true
  persistence: true
  instances: [3g.40gb@4, "2g.20gb@0{1c 1c}", "1g.10gb@2{}"]
  processes:
  - {pid: 12, namespace: pod, kind: mps, memoryMiB: 100, instance: 3g.40gb@4}
- {model: a30-24gb, pending: true, modeChangeResets: true, profiles: {14: {name: 1g.7gb, memoryMiB: 6100}}}
- {model: acme-1, instances: [1g.16gb@3]}
- {model: l4, count: 2, lost: true, events: false, processes: [{pid: 13}]}
latencies: {GPUByUUID: 2s}
faults:
- {call: CreateGI, client: agent, gpus: [0], nth: 1, code: IN_USE, form: done}
`

func TestMachineFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "machine.yaml")
	if err := os.WriteFile(path, []byte(everything), 0o600); err != nil {
		t.Fatal(err)
	}
	m := machine(t, "@"+path)
	f := open(t, m, Admin("agent"))
	f.dumps(`gpu-0 a30-24gb mig=off pending=on
gpu-1 acme-1 mig=on [1g.16gb@3]
gpu-2 l4 lost
gpu-3 l4 lost
gpu-5 h100-sxm5-80gb mig=on [2g.20gb@0{1c 1c} 1g.10gb@2{} 3g.40gb@4*]
`)
	got := m.GPUs()[4]
	got.Instances = nil
	want := GPU{
		Number: 0, Index: 4, Minor: 5, Model: "h100-sxm5-80gb", Product: "NVIDIA H100 80GB HBM3", UUID: "GPU-one",
		BusID: "00000000:FF:00.0", NUMA: 3, PCIDeviceID: 0x233010DE, MIG: true, Pending: true, Persistence: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("GPU (-want +got):\n%s", diff)
	}
	processes, err := f.Processes(f.at(4), devices.MPSProcess)
	f.ok(err)
	// GI 1 is the second half of a swapped board.
	if diff := cmp.Diff([]devices.Process{{PID: 12, MemoryBytes: 100 << 20, GI: 1, CI: 0}}, processes); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
}

func TestMachineFileDriverAndTables(t *testing.T) {
	f := open(t, machine(t, everything), Admin("test"))
	version, err := f.DriverVersion()
	f.ok(err)
	cuda, err := f.CUDADriverVersion()
	f.ok(err)
	major, minor, err := f.ComputeCapability(f.at(1))
	f.ok(err)
	got := fmt.Sprintf("driver %s, CUDA %d, compute capability %d.%d, boot %s", version, cuda, major, minor, f.machine.BootID())
	if want := "driver 600.1, CUDA 14020, compute capability 30.1, boot first"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	a30, err := f.GIProfile(f.at(0), 0)
	f.ok(err)
	if a30.Name != "" || a30.MemoryMiB != 6100 {
		t.Errorf("profile is %+v, want another size and no name", a30)
	}
}

func TestMachineFileFaultsAndLatencies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := machine(t, everything)
		f := open(t, m, Admin("agent"))
		_, err := f.CreateGI(f.at(4), 19, devices.Placement{Start: 3, Size: 1})
		f.wants(err, devices.ErrInUse)
		if list := m.GPUs()[4].Instances; list[len(list)-1].Slot != "1g.10gb@3" {
			t.Errorf("the fault's call was not done: %+v", list)
		}
		start := time.Now()
		_, err = f.GPUByUUID("GPU-one")
		f.wants(err, devices.ErrLost)
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("look-up took %v", took)
		}
	})
}

func TestMachineFileErrors(t *testing.T) {
	for _, tc := range []struct{ name, file, want string }{
		{"unknown key", "gpus:\n- {model: l4}\n- model: l4\n  colour: red\n", `line 4: unknown key "colour"; valid keys: count, events, instances`},
		{"unknown key at the top", "gpu: []\n", `line 1: unknown key "gpu"; valid keys: bootID, driver, faults, gpus`},
		{"unknown key in a map", "models:\n  x:\n    nam: y\n", `line 3: unknown key "nam"`},
		{"unknown key deep down", "gpus:\n- model: l4\n  processes:\n  - {pit: 1}\n", `line 4: unknown key "pit"; valid keys: ci, instance, kind`},
		{"unknown model", "gpus:\n- {model: h100}\n", `line 2: unknown model "h100"; valid models: a100-sxm4-40gb`},
		{"not YAML", "gpus: [", "decode"},
		{"wrong type", "gpus: 3\n", "decode"},
		{"two documents", "gpus: []\n---\ngpus: []\n", "more than one"},
		{"count", "gpus:\n- {model: l4, count: -1}\n", "line 2: count is -1"},
		{"huge count", "gpus:\n- {model: l4, count: 100000000}\n", "1 to 1024"},
		{"cut what cannot be", "gpus:\n- {model: l4, mig: on}\n", "line 2: mig: l4 cannot be cut"},
		{"instances with mode off", "gpus:\n- {model: a30-24gb, mig: off, instances: [1g.6gb@0]}\n", "line 2: instances: mig is off"},
		{"form of an instance", "gpus:\n- {model: a30-24gb, instances: [1g.6gb]}\n", "is not of the form"},
		{"unknown profile", "gpus:\n- {model: a30-24gb, instances: [1g.5gb@0]}\n", "valid profiles: 1g.6gb, 1g.6gb+me"},
		{"illegal start", "gpus:\n- {model: a30-24gb, instances: [2g.12gb@1]}\n", "INVALID_ARGUMENT"},
		{"overlap", "gpus:\n- {model: a30-24gb, instances: [1g.6gb@0, 2g.12gb@0]}\n", "INSUFFICIENT_RESOURCES"},
		{"unknown compute instance", "gpus:\n- {model: a30-24gb, instances: [\"2g.12gb@0{3c}\"]}\n", `no compute instance "3c"`},
		{"too many compute instances", "gpus:\n- {model: a30-24gb, instances: [\"2g.12gb@0{1c 2c}\"]}\n", "INSUFFICIENT_RESOURCES"},
		{"swapped halves of a full die", "gpus:\n- {model: a30-24gb, swappedHalves: true}\n", "no compute slice is missing"},
		{"same uuid", "gpus:\n- {model: l4, count: 2, uuid: GPU-x}\n", "uuid GPU-x is given twice"},
		{"same minor", "gpus:\n- {model: l4, count: 2, minor: 1}\n", "minor 1 is given twice"},
		{"negative minor", "gpus:\n- {model: l4, minor: -1}\n", "minor is -1"},
		{"same pci", "gpus:\n- {model: l4, count: 2, pci: \"0000:10:00.0\"}\n", "pci 00000000:10:00.0 is given twice"},
		{"pci", "gpus:\n- {model: l4, pci: first}\n", "is not of the form 00000000:65:00.0"},
		{"reset", "gpus:\n- {model: l4, reset: maybe}\n", "valid: works, unsupported, ignored"},
		{"profile override", "gpus:\n- {model: a30-24gb, profiles: {99: {name: x}}}\n", "no profile id 99; valid ids: [0 5 6 14 21]"},
		{"process kind", "gpus:\n- {model: l4, processes: [{kind: bash}]}\n", "valid: compute, graphics, mps"},
		{"process instance", "gpus:\n- {model: a30-24gb, processes: [{pid: 7, instance: 1g.6gb@0}]}\n", "pid 7: no instance 1g.6gb@0"},
		{
			"process compute instance", "gpus:\n- {model: a30-24gb, instances: [1g.6gb@0], processes: [{instance: 1g.6gb@0, ci: 1}]}\n",
			"no compute instance 1",
		},
		{"driver state", "driver: {state: gone}\n", "valid: loaded, unloaded, mismatched"},
		{"cuda", "driver: {cuda: new}\n", "not of the form"},
		{"latency", "latencies: {Sleep: 1s}\n", "unknown call"},
		{"fault call", "faults:\n- {call: Sleep}\n", "line 2: unknown call"},
		{"fault code", "faults:\n- {code: BAD}\n", "valid answers: DRIVER_NOT_LOADED"},
		{"fault form", "faults:\n- {form: odd}\n", "valid forms: refused, done, hung"},
		{"table without full profile", table("slices: 1, size: 1, starts: [0]"), "no profile takes all 4 memory slices"},
		{"table with odd size", table("slices: 1, size: 3, starts: [0]"), "not a half, quarter"},
		{"table with start outside", table("slices: 1, size: 2, starts: [4]"), "outside of 4 memory slices"},
		{"table with odd slices", table("slices: 5, size: 4, starts: [0]"), "slices is 5"},
		{"table without starts", table("slices: 4, size: 4"), "starts are needed"},
		{"table without count", "models: {x: {memorySlices: 4, profiles: [{name: 1g}]}}\n", "maxInstances are needed"},
		{"table without slices", "models: {x: {profiles: [{name: 1g, slices: 1, maxInstances: 1}]}}\n", "memorySlices is 0"},
		{"table with odd enum", table("enum: 99, slices: 4, size: 4, starts: [0]"), "enum is 99"},
		{"table with odd capability", "models:\n  x: {computeCapability: new}\n", `line 2: model x: computeCapability "new"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := ParseYAML([]byte(tc.file)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// table is a machine file with a product of four memory slices and one profile.
func table(profile string) string {
	return "models: {x: {memorySlices: 4, computeSlices: 4, profiles: [{name: a, id: 1, maxInstances: 1, " + profile + "}]}}\n"
}

func TestAllErrorsAtOnce(t *testing.T) {
	_, err := ParseYAML([]byte("driver: {state: gone}\ngpus:\n- {model: x}\n- {model: y}\nlatencies: {Sleep: 1s}\n"))
	for _, want := range []string{"state", `line 3: unknown model "x"`, `line 4: unknown model "y"`, "unknown call"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

func TestDriverStatesInAFile(t *testing.T) {
	for state, want := range map[string]devices.Code{"unloaded": devices.ErrDriverNotLoaded, "mismatched": devices.ErrVersionMismatch} {
		m := machine(t, "driver:\n  state: "+state+"\n")
		fixture{t: t}.wants(m.Open(Admin("test")).Init(), want)
	}
	if got := machine(t, "\n").Dump(); got != "" {
		t.Errorf("an empty file makes %q", got)
	}
}

func FuzzParseYAML(f *testing.F) {
	f.Add([]byte(everything))
	f.Add([]byte(""))
	f.Add([]byte(table("slices: 4, size: 4, starts: [0]")))
	f.Add([]byte("gpus: [{model: a30-24gb, instances: [\"2g.12gb@0{1c}\"]}]"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseYAML(data)
		if err != nil {
			return
		}
		_ = m.Dump()
		m.Close()
	})
}

func FuzzParse(f *testing.F) {
	f.Add("8xh100-sxm5-80gb")
	f.Add("2xa100-sxm4-40gb,1xl40s")
	f.Fuzz(func(t *testing.T, spec string) {
		if strings.HasPrefix(spec, "@") {
			t.Skip("reads files")
		}
		if m, err := Parse(spec); err == nil {
			_ = m.Dump()
		}
	})
}
