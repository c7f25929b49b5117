// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpuslice/internal/config"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/mig"
)

// wantOf resolves a layout on the very GPU: names, starts and counts are those of its driver.
func wantOf(g devices.GPU, l config.Layout, used mig.InUse) (mig.Want, []string, error) {
	if l.MIG == nil || l.MIG.AsFound {
		return mig.Want{}, nil, nil
	}
	if g.Virtual {
		return mig.Want{}, nil, fmt.Errorf("%s (%s) is a virtual GPU, which the host of this machine cuts", g.Name(), g.Model)
	}
	if !g.IsMIGCapable() {
		return mig.Want{}, nil, fmt.Errorf("%s (%s) is not MIG capable", g.Name(), g.Model)
	}
	if len(l.MIG.Slots) > 0 {
		layout, warnings, err := exactSlots(g.Geometry, l.MIG.Slots)
		return mig.Want{MIG: true, Layout: layout}, warnings, err
	}
	wish, warnings, err := wishOf(g.Geometry, *l.MIG)
	if err != nil {
		return mig.Want{}, warnings, err
	}
	layout, err := place(g, wish, used)
	return mig.Want{MIG: true, Layout: layout}, warnings, err
}

func exactSlots(g mig.Geometry, texts []string) (mig.Layout, []string, error) {
	slots, warnings, errs := []mig.Slot{}, []string{}, []error{}
	for _, text := range texts {
		s, warning, err := g.ParseSlot(text)
		errs = append(errs, err)
		if warning != "" {
			warnings = append(warnings, warning)
		}
		slots = append(slots, s)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, warnings, err
	}
	l := mig.NewLayout(slots...)
	if len(l) < len(slots) {
		return nil, warnings, fmt.Errorf("slots %s: one of them is listed twice; there are %s", strings.Join(texts, ", "), l)
	}
	return l, warnings, g.Check(l)
}

// wish is what is to be placed: fixed counts, or as many of one profile as fit.
type wish struct {
	counts mig.Counts
	fill   *mig.Profile
}

func wishOf(g mig.Geometry, m config.MIG) (wish, []string, error) {
	switch {
	case m.Fill == config.FillNone:
		return wish{counts: mig.Counts{}}, nil, nil
	case m.Fill == config.FillBalanced:
		counts, err := g.Balanced()
		return wish{counts: counts}, nil, err
	case strings.HasSuffix(m.Fill, "g"):
		var n int
		if _, err := fmt.Sscanf(m.Fill, "%dg", &n); err != nil {
			return wish{}, nil, fmt.Errorf("fill %q: %w", m.Fill, err)
		}
		p, err := g.Smallest(n)
		return wish{fill: &p}, nil, err
	case m.Fill != "":
		p, warning, err := g.Resolve(m.Fill)
		return wish{fill: &p}, nonEmpty(warning), err
	}
	counts, warnings, errs := mig.Counts{}, []string{}, []error{}
	for name, n := range m.Instances {
		p, warning, err := g.Resolve(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		counts[p.ID] += n
		warnings = append(warnings, nonEmpty(warning)...)
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	slices.Sort(warnings)
	return wish{counts: counts}, warnings, errors.Join(errs...)
}

func nonEmpty(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// place keeps what is busy if the wish can be had around it. If it cannot, the wish is placed as on an idle GPU, and the
// plan names what stands in the way.
func place(g devices.GPU, w wish, used mig.InUse) (mig.Layout, error) {
	have := mig.Layout{}
	if g.MIG.Mode.Current {
		have = g.MIG.UsableLayout()
	}
	busy := mig.Layout{}
	left := map[int]int{}
	maps.Copy(left, w.counts)
	for _, inst := range g.MIG.Instances {
		id := inst.Slot.Profile.ID
		wanted := left[id] > 0 || w.fill != nil && w.fill.ID == id
		if len(used.Instances[inst.GI]) > 0 && wanted {
			busy = append(busy, inst.Slot)
			left[id]--
		}
	}
	layout, err := w.fit(g.Geometry, mig.NewLayout(busy...), have)
	if errors.Is(err, mig.ErrNoFit) && len(busy) > 0 {
		return w.fit(g.Geometry, nil, have)
	}
	return layout, err
}

func (w wish) fit(g mig.Geometry, busy, have mig.Layout) (mig.Layout, error) {
	if w.fill != nil {
		return g.Fill(*w.fill, busy, have)
	}
	return g.Fit(w.counts, busy, have)
}
