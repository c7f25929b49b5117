// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpuslice/pkg/devices"
)

// model is what one product can do; rows is empty where it cannot be cut.
type model struct {
	key, name                          string
	architecture, brand                int // numbers of nvml.h
	ccMajor, ccMinor                   int
	pciID                              uint32 // device id in the upper half, vendor in the lower
	memoryMiB                          uint64
	sms                                int
	memorySlices, computeSlices        int
	modeNeedsReset, modeSurvivesReboot bool
	nvlinks                            int  // into NVSwitch
	noMemory                           bool // it works in the host's
	integrated                         bool // into a system on a chip
	virtual                            bool // a part of a GPU that the machine's own host has cut
	rows                               []row
}

// row is one GPU-instance profile of a model.
type row struct {
	devices.GIProfile
	enum       int
	placements []devices.Placement
	cis        []ciRow
}

// ciRow is one compute-instance profile of a row; spans are compute slices inside the GPU instance.
type ciRow struct {
	devices.CIProfile
	enum  int
	spans []devices.Placement
}

// at is placements of one size.
func at(size int, starts ...int) []devices.Placement {
	placements := make([]devices.Placement, len(starts))
	for i, start := range starts {
		placements[i] = devices.Placement{Start: start, Size: size}
	}
	return placements
}

var builtin = byKey(slices.Concat(turingModels, ampereModels, adaModels, hopperModels, blackwellModels, otherModels))

func byKey(models []model) map[string]model {
	keyed := map[string]model{}
	for _, m := range models {
		m.nvlinks = switched[m.key]
		keyed[m.key] = m
	}
	return keyed
}

// Models lists the keys of the built-in models, sorted.
func Models() []string { return slices.Sorted(maps.Keys(builtin)) }

func findModel(models map[string]model, key string) (model, error) {
	if m, ok := models[key]; ok {
		return m, nil
	}
	return model{}, fmt.Errorf("unknown model %q; valid models: %s", key, strings.Join(slices.Sorted(maps.Keys(models)), ", "))
}

func (m model) canMIG() bool { return len(m.rows) > 0 }

// rowByID finds a GPU-instance profile by its profile id.
func (m model) rowByID(id int) (row, bool) {
	return find(m.rows, func(r row) bool { return r.ID == id })
}

func (m model) rowByEnum(enum int) (row, bool) {
	return find(m.rows, func(r row) bool { return r.enum == enum })
}

func (m model) rowByName(name string) (row, bool) {
	return find(m.rows, func(r row) bool { return r.Name == name })
}

// full is the row that takes the whole GPU; its engines are all there are.
func (m model) full() row {
	r, _ := find(m.rows, func(r row) bool { return r.placements[0].Size == m.memorySlices && !r.Graphics })
	return r
}

func (r row) ciByID(id int) (ciRow, bool) {
	return find(r.cis, func(c ciRow) bool { return c.ID == id })
}

func (r row) ciByEnum(enum int) (ciRow, bool) {
	return find(r.cis, func(c ciRow) bool { return c.enum == enum })
}

// filling is the compute instance that takes all of the GPU instance.
func (r row) filling() ciRow {
	c, _ := find(r.cis, func(c ciRow) bool { return c.Slices == r.Slices })
	return c
}

func find[T any](in []T, match func(T) bool) (T, bool) {
	if i := slices.IndexFunc(in, match); i >= 0 {
		return in[i], true
	}
	var none T
	return none, false
}
