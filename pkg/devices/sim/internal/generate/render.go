// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package generate

import (
	"bytes"
	"fmt"
	"go/format"
	"maps"
	"slices"
	"strings"
)

const header = `// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Code generated from mig-profiles.json by generate.go; DO NOT EDIT.

package sim

`

// Files renders the tables as Go files, by name: one per architecture and one with the compute-instance tables.
func Files(data []byte) (map[string][]byte, error) {
	t, err := parse(data)
	if err != nil {
		return nil, err
	}
	sources := map[string]string{"models_compute_gen.go": renderCIs(t)}
	for _, arch := range slices.Sorted(maps.Keys(t.byArch)) {
		sources["models_"+arch+"_gen.go"] = renderModels(arch, t.byArch[arch])
	}
	files := map[string][]byte{}
	for name, source := range sources {
		file, err := format.Source([]byte(header + source))
		if err != nil {
			return nil, fmt.Errorf("format %s: %w", name, err)
		}
		files[name] = file
	}
	return files, nil
}

func renderCIs(t tables) string {
	var b bytes.Buffer
	b.WriteString("import \"gpuslice/pkg/devices\"\n\n// Compute-instance profiles by the shape of the GPU instance.\nvar (\n")
	for _, name := range t.ciOrdered {
		fmt.Fprintf(&b, "%s = []ciRow{\n", name)
		for _, c := range t.ciByName[name] {
			fmt.Fprintf(&b, "{CIProfile: devices.CIProfile{ID: %d, Slices: %d, MaxInstances: %d}, enum: %d, spans: %s},\n",
				c.ID, c.Slices, c.Instances, c.Enum, renderSpans(c.Spans))
		}
		b.WriteString("}\n")
	}
	b.WriteString(")\n")
	return b.String()
}

func renderModels(arch string, models []model) string {
	var b bytes.Buffer
	if slices.ContainsFunc(models, func(m model) bool { return len(m.Rows) > 0 }) {
		b.WriteString("import \"gpuslice/pkg/devices\"\n\n")
	}
	fmt.Fprintf(&b, "var %sModels = []model{\n", arch)
	for _, m := range models {
		major, minor, _ := strings.Cut(m.ComputeCapability, ".")
		fmt.Fprintf(&b, "{\nkey: %q, name: %q,\n", m.Key, m.Name)
		fmt.Fprintf(&b, "architecture: %d, brand: %d, ccMajor: %s, ccMinor: %s, pciID: %s,\n",
			architectures[m.Architecture], brand(m.Name), major, minor, m.PCIDeviceIDs[0])
		fmt.Fprintf(&b, "memoryMiB: %d, sms: %d, memorySlices: %d, computeSlices: %d,\n",
			m.MemoryMiB, m.SMs, m.MemorySlices, m.ComputeSlices)
		fmt.Fprintf(&b, "modeNeedsReset: %t, modeSurvivesReboot: %t,\n", m.Mode.NeedsReset, m.Mode.SurvivesReboot)
		renderRows(&b, m.Rows)
		b.WriteString("},\n")
	}
	b.WriteString("}\n")
	return b.String()
}

func renderRows(b *bytes.Buffer, rows []row) {
	if len(rows) == 0 {
		return
	}
	b.WriteString("rows: []row{\n")
	for _, r := range rows {
		table, err := ciTable(r)
		if err != nil {
			continue // parse has refused it already
		}
		fmt.Fprintf(b, "{GIProfile: devices.GIProfile{ID: %d, Name: %q, Slices: %d, MaxInstances: %d, SMs: %d, CopyEngines: %d, "+
			"Decoders: %d, Encoders: %d, JPEGs: %d, OFAs: %d, MemoryMiB: %d, Graphics: %t}, enum: %d, placements: %s, cis: %s},\n",
			r.ID, r.Name, r.Slices, r.MaxInstances, r.SMs, r.CopyEngines,
			r.Decoders, r.Encoders, r.JPEGs, r.OFAs, r.MemoryMiB, slices.Contains(r.Capabilities, "gfx"),
			r.Enum, renderSpans(r.Placements), table)
	}
	b.WriteString("},\n")
}

// renderSpans writes spans of one size as at(size, starts...).
func renderSpans(spans []span) string {
	starts := make([]string, len(spans))
	for i, s := range spans {
		starts[i] = fmt.Sprint(s.Start)
	}
	return fmt.Sprintf("at(%d, %s)", spans[0].Size, strings.Join(starts, ", "))
}
