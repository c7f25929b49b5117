// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package cdi

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"tags.cncf.io/container-device-interface/specs-go"
)

// Target is a GPU or an instance that a container shall get.
type Target struct {
	Names  []string
	Minor  int
	GI, CI int // -1 for a whole GPU
	Hooks  []Hook
}

// Writer makes specs of targets and writes them.
type Writer struct {
	Files *Files
	Nodes NodeSource
	// Common discovers what every container needs of the driver.
	Common func() (specs.ContainerEdits, error)
	// Print changes when the driver's files do, and costs next to nothing; nil: they never do.
	Print func() string
	Owner string // goes into the annotation that marks our files

	mu     sync.Mutex // one writer of files
	edits  edits
	onDisk int // the generation of edits that every spec of ours on disk has
	// written is the generation of each file that this process has written.
	written map[string]int
}

// Resolve finds the nodes of a target.
func (w *Writer) Resolve(t Target) (Device, error) {
	gpu, err := w.Nodes.GPU(t.Minor)
	if err != nil {
		return Device{}, err
	}
	for _, h := range t.Hooks {
		if _, err := os.Stat(h.Path); err != nil {
			return Device{}, fmt.Errorf("hook of CDI device %v: %w", t.Names, err)
		}
	}
	d := Device{Names: t.Names, Nodes: []Node{gpu}, Hooks: t.Hooks}
	if t.GI < 0 {
		return d, nil
	}
	caps, err := w.Nodes.Instance(t.Minor, t.GI, t.CI)
	if err != nil {
		return Device{}, err
	}
	d.Nodes = append(d.Nodes, caps...)
	return d, nil
}

// WriteDevicePlugin replaces the device plugin's spec.
func (w *Writer) WriteDevicePlugin(list []Device) error {
	if len(list) == 0 {
		return w.remove(DevicePluginFile())
	}
	return w.write(DevicePluginKind, DevicePluginFile(), list, "all")
}

// WriteClaim writes the spec of one claim.
func (w *Writer) WriteClaim(uid string, list []Device) error {
	return w.write(ClaimKind, ClaimFile(uid), list, "")
}

// RemoveClaim deletes the spec of one claim; one that is gone is success.
func (w *Writer) RemoveClaim(uid string) error { return w.remove(ClaimFile(uid)) }

func (w *Writer) remove(file string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.written, file)
	return w.Files.Remove(file)
}

// Claims lists the UIDs of claims that have a spec of ours.
func (w *Writer) Claims() ([]string, error) { return w.Files.Claims() }

func (w *Writer) write(kind, file string, list []Device, all string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	common, err := w.edits.current(w.printed, w.discover)
	if err != nil {
		return err
	}
	spec, err := Spec(kind, w.Owner, list, all, common)
	if err != nil {
		return err
	}
	if err := w.Files.Write(file, spec); err != nil {
		return err
	}
	w.note(file)
	return nil
}

// note remembers of which edits a file is.
func (w *Writer) note(file string) {
	if w.written == nil {
		w.written = map[string]int{}
	}
	w.written[file] = w.edits.generation
}

// discover finds the driver's files and the nodes that belong to every device. What it names is there.
func (w *Writer) discover() (specs.ContainerEdits, error) {
	edits, err := w.Common()
	if err != nil {
		return specs.ContainerEdits{}, err
	}
	nodes, err := w.Nodes.Control()
	if err != nil {
		return specs.ContainerEdits{}, err
	}
	edits.DeviceNodes = append(slices.Clone(edits.DeviceNodes), deviceNodes(nodes)...)
	if missing := absent(edits); missing != "" {
		return specs.ContainerEdits{}, fmt.Errorf("the driver's files: %s is not there", missing)
	}
	return edits, nil
}

// Follow is called every other second or so. When the driver's files have changed, it brings every spec of ours on disk up to them,
// those of earlier processes too, and says so. The error is why specs could not follow; they stay as they are, and it is tried
// again with each call.
func (w *Writer) Follow() (changed bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.edits.look(w.printed(), w.discover); err != nil || w.edits.generation == w.onDisk {
		return false, err
	}
	older, err := w.Files.ours(w.isCurrent)
	if err != nil {
		return false, fmt.Errorf("read CDI specs: %w", err)
	}
	errs := []error{}
	for name, spec := range older {
		err := setCommon(spec, *w.edits.common)
		if err == nil {
			err = w.Files.Write(name, spec)
		}
		if err == nil {
			w.note(name)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return false, err
	}
	w.onDisk = w.edits.generation
	return true, nil
}

func (w *Writer) isCurrent(file string) bool { return w.written[file] == w.edits.generation }

func (w *Writer) printed() string {
	if w.Print == nil {
		return "never changes"
	}
	return w.Print()
}
