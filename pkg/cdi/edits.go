// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package cdi

import (
	"os"
	"reflect"

	"tags.cncf.io/container-device-interface/specs-go"
)

// edits remembers what every container needs of the driver, and when that must be discovered anew.
type edits struct {
	common     *specs.ContainerEdits // nil before the first discovery that succeeded
	generation int                   // counts how often common became another
	print      string                // of the files that common was discovered from; "" when they may have changed meanwhile
	seen       string                // the print of the last look
	failed     error                 // why the last discovery failed
}

type discovery func() (specs.ContainerEdits, error)

// current returns edits for a spec that is written now. What was discovered serves as long as every file of it is there. The first
// discovery is taken for final: what changes after its print was taken changes the print.
func (e *edits) current(now func() string, discover discovery) (specs.ContainerEdits, error) {
	var err error
	switch {
	case e.common == nil:
		e.seen = now()
		err = e.renew(e.seen, discover)
	case absent(*e.common) != "":
		err = e.renew("", discover)
	}
	if err != nil {
		return specs.ContainerEdits{}, err
	}
	return *e.common, nil
}

// look discovers anew when the driver's files have changed. While they go on changing, an installation is under way and what was
// discovered stays, unless a file of it is gone. A discovery that failed is tried again at each look.
func (e *edits) look(now string, discover discovery) error {
	settled := now == e.seen || e.seen == ""
	e.seen = now
	missing := ""
	if e.common != nil {
		missing = absent(*e.common)
	}
	switch {
	case e.common != nil && missing == "" && e.print == now:
		e.failed = nil
		return nil
	case e.common != nil && missing == "" && !settled:
		return e.failed
	}
	if !settled {
		now = ""
	}
	return e.renew(now, discover)
}

// renew keeps what it had when the discovery fails.
func (e *edits) renew(of string, discover discovery) error {
	found, err := discover()
	if err != nil {
		e.failed = err
		return err
	}
	if e.common == nil || !reflect.DeepEqual(*e.common, found) {
		e.generation++
	}
	e.common, e.print, e.failed = &found, of, nil
	return nil
}

// absent returns the first host path of a mount, node or hook that does not exist, or "".
func absent(e specs.ContainerEdits) string {
	paths := []string{}
	for _, m := range e.Mounts {
		paths = append(paths, m.HostPath)
	}
	for _, n := range e.DeviceNodes {
		if n.HostPath != "" {
			paths = append(paths, n.HostPath)
		}
	}
	for _, h := range e.Hooks {
		paths = append(paths, h.Path)
	}
	for _, p := range paths {
		if _, err := os.Stat(p); err != nil { // whatever keeps us from it keeps the runtime from it
			return p
		}
	}
	return ""
}
