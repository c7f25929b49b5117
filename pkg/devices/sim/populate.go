// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"gpuslice/pkg/devices"
)

// populate puts the instances and processes of the machine file on the GPUs made from it, in the same order.
func (m *Machine) populate(files []gpuFile, made []*gpu) error {
	var errs []error
	for _, f := range files {
		for _, g := range made[:f.Count] {
			errs = append(errs, located(f.line, m.populateGPU(f, g)))
		}
		made = made[f.Count:]
	}
	return errors.Join(errs...)
}

func (m *Machine) populateGPU(f gpuFile, g *gpu) error {
	if len(f.Instances) > 0 && !g.mig {
		return errors.New("instances: mig is off")
	}
	for _, text := range f.Instances {
		if err := m.carve(g, text); err != nil {
			return fmt.Errorf("instances: %w", err)
		}
	}
	for _, p := range f.Processes {
		if err := g.start(p); err != nil {
			return fmt.Errorf("processes: %w", err)
		}
	}
	return nil
}

var instancePattern = regexp.MustCompile(`^([^@{}]+)@([0-9]{1,3})(\{([^{}]*)\})?$`)

// carve makes an instance in the notation of Dump, by the driver's rules.
func (m *Machine) carve(g *gpu, text string) error {
	parts := instancePattern.FindStringSubmatch(text)
	if parts == nil {
		return fmt.Errorf("%q is not of the form 3g.40gb@4, 3g.40gb@4{1c 2c} or 3g.40gb@4{}", text)
	}
	r, ok := g.model.rowByName(parts[1])
	if !ok {
		return fmt.Errorf("%q: %s has no such profile; valid profiles: %s", text, g.model.key, strings.Join(g.model.rowNames(), ", "))
	}
	start, err := strconv.Atoi(parts[2])
	if err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	at := devices.Placement{Start: start, Size: r.placements[0].Size}
	if err := fits(g.model, g.gis, r, at); err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	gi := g.insertGI(r, at)
	if parts[3] == "" {
		gi.insertCI(r.filling(), r.filling().spans[0], m.migUUID(g))
		return nil
	}
	for word := range strings.FieldsSeq(parts[4]) {
		c, ok := find(r.cis, func(c ciRow) bool { return fmt.Sprintf("%dc", c.Slices) == word })
		if !ok {
			return fmt.Errorf("%q: %s has no compute instance %q", text, r.Name, word)
		}
		span, err := freeSpan(gi.cis, c)
		if err != nil {
			return fmt.Errorf("%q: %s: %w", text, word, err)
		}
		gi.insertCI(c, span, m.migUUID(g))
	}
	return nil
}

func (m model) rowNames() []string {
	names := make([]string, len(m.rows))
	for i, r := range m.rows {
		names[i] = r.Name
	}
	return names
}

var kindNames = []string{
	devices.ComputeProcess: "compute", devices.GraphicsProcess: "graphics", devices.MPSProcess: "mps",
}

// start lets a process of the machine file use its instance, or the GPU as a whole.
func (g *gpu) start(f processFile) error {
	kind, err := choose("kind", f.Kind, kindNames)
	if err != nil {
		return err
	}
	p := Process{
		PID: f.PID, Namespace: f.Namespace, Kind: devices.ProcessKind(kind), MemoryBytes: f.MemoryMiB << 20,
		GI: devices.NoInstance, CI: devices.NoInstance,
	}
	if f.Instance != "" {
		gi, ok := find(g.gis, func(gi *gpuInstance) bool { return gi.slot() == f.Instance })
		if !ok {
			return fmt.Errorf("pid %d: no instance %s", f.PID, f.Instance)
		}
		if _, ok := find(gi.cis, func(ci *computeInstance) bool { return ci.id == f.CI }); !ok {
			return fmt.Errorf("pid %d: no compute instance %d on %s", f.PID, f.CI, f.Instance)
		}
		p.GI, p.CI = gi.id, f.CI
	}
	g.processes = append(g.processes, p)
	return nil
}
