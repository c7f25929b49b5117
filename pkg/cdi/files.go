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
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	cdilib "tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"

	"gpuslice/pkg/regular"
)

// Files keeps spec files in one directory. Only files that carry our annotation are ever removed.
type Files struct {
	dir string

	mu       sync.Mutex
	cache    *cdilib.Cache // nil until the library may read the directory
	unusable error         // why the last write found no way into the directory
	found    found
}

// found is the files of which the library found every device, and when the directory had changed last by then: another file that
// comes may claim a device of ours.
type found struct {
	files   map[string]bool
	changed time.Time
}

// settled is how long ago a directory must have changed for its time to tell of every later change: clocks of file systems tick.
const settled = 2 * time.Second

// NewFiles makes the directory if need be; Unusable says when that cannot be. There is one Files of a directory at a time.
func NewFiles(dir string) *Files {
	f := &Files{dir: dir}
	if f.unusable = f.probe(); f.unusable == nil {
		f.clean()
	}
	return f
}

// Unusable says why no spec can be written into the directory and read back; nil: one can. While it cannot, every question tries
// again.
func (f *Files) Unusable() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unusable != nil {
		if f.unusable = f.probe(); f.unusable == nil {
			f.unusable = f.odd()
		}
	}
	return f.unusable
}

// probe writes and removes a file, because permissions do not tell of a file system that is read-only or full.
func (f *Files) probe() error {
	tmp, err := f.temporary()
	if err != nil {
		return err
	}
	_, err = tmp.WriteString("{}")
	if err = errors.Join(err, tmp.Close(), os.Remove(tmp.Name())); err != nil {
		return fmt.Errorf("CDI directory %s: %w", f.dir, err)
	}
	return nil
}

func (f *Files) temporary() (*os.File, error) {
	err := os.MkdirAll(f.dir, 0o755)
	if err != nil {
		return nil, fmt.Errorf("CDI directory %s: %w", f.dir, err)
	}
	tmp, err := os.CreateTemp(f.dir, temporary+"*.tmp")
	if err != nil {
		return nil, fmt.Errorf("CDI directory %s: %w", f.dir, err)
	}
	return tmp, nil
}

// DevicePluginFile is the one file of the device plugin.
func DevicePluginFile() string { return "k8s.device-plugin.nvidia.com-gpu" }

// ClaimFile is the file of one claim.
func ClaimFile(claimUID string) string { return "k8s.gpu.nvidia.com-claim_" + claimUID }

// Write replaces a spec file and returns nil only when the CDI library finds every device of it.
func (f *Files) Write(name string, spec *specs.Spec) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	replaced, err := f.replace(name+".json", spec)
	if err != nil {
		f.unusable = f.probe()
		return fmt.Errorf("write CDI spec %s: %w", name, err)
	}
	changed := f.changed()
	if !replaced && f.found.files[name] && f.found.changed.Equal(changed) {
		return nil // it would be found again
	}
	complaints, err := f.refresh() // other people's bad files are complained of too, and are not ours to fail on
	if err != nil {
		return fmt.Errorf("read CDI spec %s back: %w", name, err)
	}
	for _, d := range spec.Devices {
		if qualified := Qualified(spec.Kind, d.Name); f.cache.GetDevice(qualified) == nil {
			return fmt.Errorf("read CDI spec %s back: %s is not found: %w", name, qualified, errors.Join(complaints, errNotResolved))
		}
	}
	f.note(name, changed)
	return nil
}

// refresh lets the library read the directory. It returns what the library has to say of files there, or why it must not read them.
func (f *Files) refresh() (complaints, err error) {
	if f.unusable = f.odd(); f.unusable != nil {
		return nil, f.unusable
	}
	if f.cache == nil {
		if f.cache, err = cdilib.NewCache(cdilib.WithSpecDirs(f.dir), cdilib.WithAutoRefresh(false)); err != nil {
			return nil, fmt.Errorf("open CDI directory %s: %w", f.dir, err)
		}
	}
	return f.cache.Refresh(), nil
}

// maxSpec is far above what any spec needs.
const maxSpec = 16 << 20

// odd names what the CDI library would wait for, or read without end, when it reads the directory; a runtime would do the same.
func (f *Files) odd() error {
	entries, _ := os.ReadDir(f.dir) // the library says what is wrong with the directory itself
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext != ".json" && ext != ".yaml" {
			continue
		}
		path := filepath.Join(f.dir, e.Name())
		info, err := os.Stat(path)
		switch {
		case err != nil || info.IsDir(): // the library passes over it
		case !info.Mode().IsRegular():
			return fmt.Errorf("CDI directory %s: %s is no regular file; remove it: the container runtime would wait for it, too", f.dir, e.Name())
		case info.Size() > maxSpec:
			return fmt.Errorf("CDI directory %s: %s is longer than %d bytes; remove it: the container runtime would read it, too", f.dir, e.Name(), maxSpec)
		}
	}
	return nil
}

// changed is when a file of the directory came, went or was replaced last; zero = nobody can say.
func (f *Files) changed() time.Time {
	info, err := os.Stat(f.dir)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// note remembers that every device of a file was found in the directory as it was at a time.
func (f *Files) note(name string, changed time.Time) {
	if f.found.files == nil || !f.found.changed.Equal(changed) {
		f.found = found{map[string]bool{}, changed}
	}
	f.found.files[name] = !changed.IsZero() && time.Since(changed) > settled
}

// temporary begins the names of our files that are being written, so that the next process can tell what a crash left of
// us from what others are writing; the CDI library's own way names them all alike.
const temporary = ".gpuslice-"

// replace puts a spec that the CDI library can read in place of the one before, unless that is the same.
func (f *Files) replace(name string, spec *specs.Spec) (replaced bool, err error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return false, err
	}
	if before, err := regular.ReadFile(filepath.Join(f.dir, name), maxSpec); err == nil && bytes.Equal(before, text) {
		return false, nil
	}
	tmp, err := f.temporary()
	if err != nil {
		return false, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	_, err = tmp.Write(text)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return false, err
	}
	if _, err = cdilib.ReadSpec(tmp.Name(), 0); err != nil {
		return false, err
	}
	return true, os.Rename(tmp.Name(), filepath.Join(f.dir, name))
}

// clean removes what a crash left of a write. What cannot be removed harms nobody: its name is not that of a spec.
func (f *Files) clean() {
	left, _ := filepath.Glob(filepath.Join(f.dir, temporary+"*.tmp"))
	for _, path := range left {
		_ = os.Remove(path)
	}
}

var errNotResolved = errors.New("the CDI library does not resolve it")

// Remove deletes a spec file of ours; one that is gone is success.
func (f *Files) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := os.Lstat(filepath.Join(f.dir, name+".json")); errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil // a file system that is read-only would refuse to remove it all the same
	}
	if err := os.Remove(filepath.Join(f.dir, name+".json")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove CDI spec %s: %w", name, err)
	}
	return nil
}

// Claims lists the UIDs of claims that have a file of ours.
func (f *Files) Claims() ([]string, error) {
	all, err := f.ours(func(string) bool { return false })
	if err != nil {
		return nil, fmt.Errorf("list specs of claims: %w", err)
	}
	uids := []string{}
	for name := range all {
		if uid, isClaim := strings.CutPrefix(name, ClaimFile("")); isClaim {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	return uids, nil
}

// ours reads the specs of ours from disk, by name, without those to skip. Where all are skipped no file is read. A bad file costs
// itself only.
func (f *Files) ours(skip func(name string) bool) (map[string]*specs.Spec, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := map[string]*specs.Spec{}
	entries, _ := os.ReadDir(f.dir)
	if !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return !skip(nameOf(e.Name())) }) {
		return found, nil
	}
	if _, err := f.refresh(); err != nil {
		return nil, err
	}
	for _, kind := range []string{DevicePluginKind, ClaimKind} {
		vendor, _, _ := strings.Cut(kind, "/")
		for _, spec := range f.cache.GetVendorSpecs(vendor) {
			if _, ours := spec.Annotations[annotation]; ours && !skip(nameOf(spec.GetPath())) {
				found[nameOf(spec.GetPath())] = spec.Spec
			}
		}
	}
	return found, nil
}

func nameOf(path string) string { return strings.TrimSuffix(filepath.Base(path), ".json") }
