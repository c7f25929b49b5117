// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package cdi

import (
	"errors"
	"fmt"
	"os"
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
	Owner  string // goes into the annotation that marks our files

	mu     sync.Mutex
	common *specs.ContainerEdits
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
		return w.Files.Remove(DevicePluginFile())
	}
	return w.write(DevicePluginKind, DevicePluginFile(), list, "all")
}

// WriteClaim writes the spec of one claim.
func (w *Writer) WriteClaim(uid string, list []Device) error {
	return w.write(ClaimKind, ClaimFile(uid), list, "")
}

// RemoveClaim deletes the spec of one claim; one that is gone is success.
func (w *Writer) RemoveClaim(uid string) error { return w.Files.Remove(ClaimFile(uid)) }

// Claims lists the UIDs of claims that have a spec of ours.
func (w *Writer) Claims() ([]string, error) { return w.Files.Claims() }

func (w *Writer) write(kind, file string, list []Device, all string) error {
	common, err := w.commonEdits()
	if err != nil {
		return err
	}
	spec, err := Spec(kind, w.Owner, list, all, common)
	if err != nil {
		return err
	}
	return w.Files.Write(file, spec)
}

// commonEdits discovers once, and again when a file that was found then is gone: a driver upgrade replaces them under us.
// A failed discovery is not remembered.
func (w *Writer) commonEdits() (specs.ContainerEdits, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.common == nil || !present(*w.common) {
		w.common = nil
		edits, err := w.Common()
		if err != nil {
			return specs.ContainerEdits{}, err
		}
		if missing := absent(edits); missing != "" {
			return specs.ContainerEdits{}, fmt.Errorf("the driver's files: %s is not there", missing)
		}
		w.common = &edits
	}
	return *w.common, nil
}

func present(e specs.ContainerEdits) bool { return absent(e) == "" }

// absent returns the first host path of a mount or hook that does not exist, or "".
func absent(e specs.ContainerEdits) string {
	paths := []string{}
	for _, m := range e.Mounts {
		paths = append(paths, m.HostPath)
	}
	for _, h := range e.Hooks {
		paths = append(paths, h.Path)
	}
	for _, p := range paths {
		if _, err := os.Stat(p); errors.Is(err, os.ErrNotExist) {
			return p
		}
	}
	return ""
}
