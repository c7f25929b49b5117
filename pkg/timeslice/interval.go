// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package timeslice

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Interval is how long a GPU works for one process before it turns to the next. Its numbers are the driver's.
type Interval int

// The driver has four; how long each is depends on the GPU.
const (
	Default Interval = iota
	Short
	Medium
	Long
)

var intervalNames = []string{"default", "short", "medium", "long"}

func (i Interval) String() string {
	if i < 0 || int(i) >= len(intervalNames) {
		return strconv.Itoa(int(i))
	}
	return intervalNames[i]
}

// ParseInterval reads a name; "" is the default.
func ParseInterval(name string) (Interval, error) {
	if name == "" {
		return Default, nil
	}
	if i := slices.Index(intervalNames, name); i >= 0 {
		return Interval(i), nil
	}
	return 0, fmt.Errorf("interval %q is not one of %s", name, strings.Join(intervalNames, ", "))
}
