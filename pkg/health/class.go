// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package health

import (
	"fmt"
	"slices"
	"strings"
)

// Class is what an observation demands, from harmless to severe.
type Class int

// Classes above Application are faults: they make devices unhealthy.
const (
	Information Class = iota // counted
	Application              // a program's own: counted and told
	Reset                    // the GPU needs a reset
	Reboot                   // the node needs a reboot, or the driver to be loaded again
)

var classNames = []string{"information", "application", "reset", "reboot"}

func (c Class) String() string {
	if c < 0 || int(c) >= len(classNames) {
		return fmt.Sprintf("class %d", int(c))
	}
	return classNames[c]
}

// ParseClass reads what String prints.
func ParseClass(name string) (Class, error) {
	if i := slices.Index(classNames, name); i >= 0 {
		return Class(i), nil
	}
	return 0, fmt.Errorf("class %.40q is not one of %s", name, strings.Join(classNames, ", "))
}

// MarshalText implements encoding.TextMarshaler; a class that is none is written as the most severe.
func (c Class) MarshalText() ([]byte, error) {
	if c < Information || c > Reboot {
		c = Reboot
	}
	return []byte(c.String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Class) UnmarshalText(text []byte) (err error) {
	*c, err = ParseClass(string(text))
	return err
}
