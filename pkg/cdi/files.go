// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package cdi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	cdilib "tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"
)

// Files keeps spec files in one directory. Only files that carry our annotation are ever removed.
type Files struct {
	dir string

	mu    sync.Mutex
	cache *cdilib.Cache
}

// NewFiles makes the directory if need be. There is one Files of a directory at a time.
func NewFiles(dir string) (*Files, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make CDI directory: %w", err)
	}
	cache, err := cdilib.NewCache(cdilib.WithSpecDirs(dir), cdilib.WithAutoRefresh(false))
	if err != nil {
		return nil, fmt.Errorf("open CDI directory %s: %w", dir, err)
	}
	f := &Files{dir: dir, cache: cache}
	return f, f.clean()
}

// DevicePluginFile is the one file of the device plugin.
func DevicePluginFile() string { return "k8s.device-plugin.nvidia.com-gpu" }

// ClaimFile is the file of one claim.
func ClaimFile(claimUID string) string { return "k8s.gpu.nvidia.com-claim_" + claimUID }

// Write replaces a spec file and returns nil only when the CDI library finds every device of it.
func (f *Files) Write(name string, spec *specs.Spec) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.replace(name+".json", spec); err != nil {
		return fmt.Errorf("write CDI spec %s: %w", name, err)
	}
	refreshErr := f.cache.Refresh() // other people's bad files show up here too, and are not ours to fail on
	for _, d := range spec.Devices {
		if qualified := Qualified(spec.Kind, d.Name); f.cache.GetDevice(qualified) == nil {
			return fmt.Errorf("read CDI spec %s back: %s is not found: %w", name, qualified, errors.Join(refreshErr, errNotResolved))
		}
	}
	return nil
}

// temporary begins the names of our files that are being written, so that the next process can tell what a crash left of
// us from what others are writing; the CDI library's own way names them all alike.
const temporary = ".gpuslice-"

// replace puts a spec that the CDI library can read in place of the one before, unless that is the same.
func (f *Files) replace(name string, spec *specs.Spec) (err error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	if before, err := os.ReadFile(filepath.Join(f.dir, name)); err == nil && bytes.Equal(before, text) {
		return nil
	}
	tmp, err := os.CreateTemp(f.dir, temporary+"*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	_, err = tmp.Write(text)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if _, err = cdilib.ReadSpec(tmp.Name(), 0); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), filepath.Join(f.dir, name))
}

// clean removes what a crash left of a write.
func (f *Files) clean() error {
	left, err := filepath.Glob(filepath.Join(f.dir, temporary+"*.tmp"))
	if err != nil {
		return fmt.Errorf("clean CDI directory: %w", err)
	}
	errs := []error{}
	for _, path := range left {
		errs = append(errs, os.Remove(path))
	}
	return errors.Join(errs...)
}

var errNotResolved = errors.New("the CDI library does not resolve it")

// Remove deletes a spec file of ours; one that is gone is success.
func (f *Files) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.cache.RemoveSpec(name + ".json"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove CDI spec %s: %w", name, err)
	}
	return nil
}

// Claims lists the UIDs of claims that have a file of ours.
func (f *Files) Claims() ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.cache.Refresh() // a bad file costs itself only; GetVendorSpecs below leaves it out
	uids := []string{}
	vendor, _, _ := strings.Cut(ClaimKind, "/")
	for _, spec := range f.cache.GetVendorSpecs(vendor) {
		base := strings.TrimSuffix(filepath.Base(spec.GetPath()), ".json")
		uid, isClaim := strings.CutPrefix(base, ClaimFile(""))
		if _, ours := spec.Annotations[annotation]; isClaim && ours {
			uids = append(uids, uid)
		}
	}
	return uids, nil
}
