// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package mig

import (
	"fmt"
	"strconv"
	"strings"
)

// Engines counts the units that instances of one GPU share out among themselves.
type Engines struct {
	SMs, Copy, Decoder, Encoder, JPEG, OFA int
}

// Profile is one kind of instance as the driver of one GPU describes it. ID is its identity; names change with the driver.
type Profile struct {
	ID            int
	Name          string // "3g.40gb", "1g.10gb+me"
	ComputeSlices int
	MemorySlices  int
	MemoryMiB     uint64 // 0 = the driver does not say
	MaxInstances  int
	Engines       Engines
}

func (p Profile) String() string { return p.Name }

// Plain says whether the profile carries no attribute such as +me, -me, +me.all or +gfx.
func (p Profile) Plain() bool { return !strings.ContainsAny(p.Name, "+-") }

// ResourceSuffix is the profile's name as it may stand in a resource name or a label: '+' becomes '.', all else stays,
// so that the five variants of one profile keep five names.
func (p Profile) ResourceSuffix() string { return strings.ReplaceAll(p.Name, "+", ".") }

// splitName cuts "1g.10gb+me" into slices, size in GB and attribute "+me"; ok is false for anything else.
func splitName(name string) (slices, gb int, attribute string, ok bool) {
	base := name
	if i := strings.IndexAny(name, "+-"); i >= 0 {
		base, attribute = name[:i], name[i:]
	}
	g, rest, found := strings.Cut(base, "g.")
	if !found {
		return 0, 0, "", false
	}
	size, found := strings.CutSuffix(rest, "gb")
	if !found {
		return 0, 0, "", false
	}
	slices, errSlices := strconv.Atoi(g)
	gb, errSize := strconv.Atoi(size)
	if errSlices != nil || errSize != nil || slices < 1 || gb < 0 {
		return 0, 0, "", false
	}
	return slices, gb, attribute, true
}

// FormatName is the inverse of splitName for names that the driver does not give itself.
func FormatName(slices, gb int, attribute string) string {
	return fmt.Sprintf("%dg.%dgb%s", slices, gb, attribute)
}
