// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package generate turns the collected MIG profile tables (JSON) into the Go tables that the simulator compiles in.
package generate

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// span is a run of slices.
type span struct {
	Start int `json:"start"`
	Size  int `json:"size"`
}

type ciRow struct {
	Enum      int    `json:"enum"`
	ID        int    `json:"profile_id"`
	Slices    int    `json:"slices"`
	Instances int    `json:"instances"`
	Default   bool   `json:"default"`
	Spans     []span `json:"placements"`
}

type row struct {
	Name         string   `json:"name"`
	Enum         int      `json:"enum"`
	ID           int      `json:"profile_id"`
	MemoryMiB    uint64   `json:"memory_mib"`
	Slices       int      `json:"compute_slices"`
	MemorySlices int      `json:"memory_slices"`
	SMs          int      `json:"sm"`
	CopyEngines  int      `json:"copy_engines"`
	Decoders     int      `json:"decoders"`
	Encoders     int      `json:"encoders"`
	JPEGs        int      `json:"jpeg"`
	OFAs         int      `json:"ofa"`
	MaxInstances int      `json:"max_instances"`
	Capabilities []string `json:"capabilities"`
	Placements   []span   `json:"placements"`
	CIs          []ciRow  `json:"compute_instance_profiles"`
}

type model struct {
	Key               string   `json:"key"`
	Name              string   `json:"name"`
	Architecture      string   `json:"architecture"`
	ComputeCapability string   `json:"compute_capability"`
	PCIDeviceIDs      []string `json:"pci_device_ids"`
	MemoryMiB         uint64   `json:"memory_total_mib"`
	SMs               int      `json:"sm_total"`
	MemorySlices      int      `json:"memory_slices"`
	ComputeSlices     int      `json:"compute_slices"`
	Mode              struct {
		NeedsReset     bool `json:"enable_needs_gpu_reset"`
		SurvivesReboot bool `json:"mode_survives_reboot"`
	} `json:"mig_mode"`
	Rows []row `json:"rows"`
}

type tables struct {
	Models    []model `json:"models"`
	NonMIG    []model `json:"non_mig_models"`
	byArch    map[string][]model
	ciByName  map[string][]ciRow
	ciOrdered []string
}

// architectures holds the numbers of nvml.h (NVML_DEVICE_ARCH_*).
var architectures = map[string]int{"turing": 6, "ampere": 7, "ada": 8, "hopper": 9, "blackwell": 10}

// parse decodes the tables, fills in missing memory sizes and groups what is rendered together.
func parse(data []byte) (tables, error) {
	t := tables{byArch: map[string][]model{}, ciByName: map[string][]ciRow{}}
	if err := json.Unmarshal(data, &t); err != nil {
		return tables{}, fmt.Errorf("decode profile tables: %w", err)
	}
	if len(t.Models) == 0 {
		return tables{}, errors.New("profile tables hold no models")
	}
	for _, m := range slices.Concat(t.Models, t.NonMIG) {
		if _, ok := architectures[m.Architecture]; !ok {
			return tables{}, fmt.Errorf("model %s: unknown architecture %q", m.Key, m.Architecture)
		}
		if err := deriveMemory(&m); err != nil {
			return tables{}, fmt.Errorf("model %s: %w", m.Key, err)
		}
		if err := t.collectCIs(m); err != nil {
			return tables{}, fmt.Errorf("model %s: %w", m.Key, err)
		}
		t.byArch[m.Architecture] = append(t.byArch[m.Architecture], m)
	}
	slices.Sort(t.ciOrdered)
	return t, nil
}

// collectCIs gives every distinct compute-instance table one name; the tables depend on the GPU instance's shape alone.
func (t *tables) collectCIs(m model) error {
	for _, r := range m.Rows {
		name, err := ciTable(r)
		if err != nil {
			return err
		}
		known, ok := t.ciByName[name]
		if !ok {
			t.ciByName[name] = r.CIs
			t.ciOrdered = append(t.ciOrdered, name)
			continue
		}
		if !slices.EqualFunc(known, r.CIs, sameCI) {
			return fmt.Errorf("%s: compute instances differ from table %s", r.Name, name)
		}
	}
	return nil
}

func sameCI(a, b ciRow) bool {
	return a.Enum == b.Enum && a.ID == b.ID && a.Slices == b.Slices && a.Instances == b.Instances &&
		a.Default == b.Default && slices.Equal(a.Spans, b.Spans)
}

// ciTable names a row's compute-instance table after the profile that fills the GPU instance.
func ciTable(r row) (string, error) {
	at := slices.IndexFunc(r.CIs, func(c ciRow) bool { return c.Default })
	switch {
	case at < 0:
		return "", fmt.Errorf("%s: no compute instance profile fills it", r.Name)
	case r.CIs[at].Enum == 7:
		return fmt.Sprintf("compute%dRev1", r.Slices), nil
	default:
		return fmt.Sprintf("compute%d", r.Slices), nil
	}
}

// brand is the number of nvml.h (NVML_BRAND_*) that the product name stands for.
func brand(name string) int {
	switch {
	case strings.HasPrefix(name, "Tesla"):
		return 2
	case strings.Contains(name, "RTX"):
		return 13
	default:
		return 14
	}
}
