// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"errors"
	"strings"
	"testing"

	"gpuslice/pkg/devices"
)

// fixture is a session of a test that stops at the first call it does not expect to fail.
type fixture struct {
	devices.Driver
	t       *testing.T
	machine *Machine
}

// machine makes a machine from a spec, or from YAML if it has more than one line.
func machine(t *testing.T, spec string) *Machine {
	t.Helper()
	parse := Parse
	if strings.Contains(spec, "\n") {
		parse = func(text string) (*Machine, error) { return ParseYAML([]byte(text)) }
	}
	m, err := parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// session opens an initialised session.
func open(t *testing.T, m *Machine, c Client) fixture {
	t.Helper()
	f := fixture{Driver: m.Open(c), t: t, machine: m}
	f.ok(f.Init())
	return f
}

func (f fixture) ok(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f fixture) wants(err error, code devices.Code) {
	f.t.Helper()
	if !errors.Is(err, code) {
		f.t.Errorf("got %v, want %v", err, code)
	}
}

func (f fixture) at(index int) devices.GPUHandle {
	f.t.Helper()
	h, err := f.GPUByIndex(index)
	f.ok(err)
	return h
}

// profile finds a profile by name.
func (f fixture) profile(gpu devices.GPUHandle, name string) devices.GIProfile {
	f.t.Helper()
	for enum := range devices.GIProfileEnums {
		if p, err := f.GIProfile(gpu, enum); err == nil && p.Name == name {
			return p
		}
	}
	f.t.Fatalf("no profile %s", name)
	return devices.GIProfile{}
}

// try creates a GPU instance at the placement of a profile that begins at start.
func (f fixture) try(gpu devices.GPUHandle, name string, start int) (devices.GIHandle, error) {
	f.t.Helper()
	p := f.profile(gpu, name)
	placements, err := f.GIPlacements(gpu, p.ID)
	f.ok(err)
	return f.CreateGI(gpu, p.ID, devices.Placement{Start: start, Size: placements[0].Size})
}

func (f fixture) create(gpu devices.GPUHandle, name string, start int) devices.GIHandle {
	f.t.Helper()
	gi, err := f.try(gpu, name, start)
	f.ok(err)
	return gi
}

func (f fixture) activate(gpu devices.GPUHandle, on bool) {
	f.t.Helper()
	activation, err := f.SetMIGMode(gpu, on)
	f.ok(errors.Join(activation, err))
}

func (f fixture) dumps(want string) {
	f.t.Helper()
	if got := f.machine.Dump(); got != want {
		f.t.Errorf("machine is\n%swant\n%s", got, want)
	}
}
