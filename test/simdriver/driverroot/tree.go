// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package driverroot

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// entry is one file as it should be.
type entry struct {
	mode         fs.FileMode // type and permissions
	data         []byte
	target       string // of a symbolic link
	copyOf       string // a file with the contents
	major, minor uint32
}

// tree is what should be there, by path.
type tree map[string]entry

func text(format string, args ...any) entry {
	return entry{mode: 0o444, data: fmt.Appendf(nil, format, args...)}
}

func link(target string) entry { return entry{mode: fs.ModeSymlink, target: target} }

func node(major, minor int, mode fs.FileMode) entry {
	return entry{mode: fs.ModeDevice | fs.ModeCharDevice | mode, major: uint32(major), minor: uint32(minor)}
}

func (e entry) equal(o entry) bool {
	return e.mode == o.mode && bytes.Equal(e.data, o.data) && e.target == o.target && e.copyOf == o.copyOf &&
		e.major == o.major && e.minor == o.minor
}

// change takes away what is no longer wanted, then makes what is new or different.
func (r *Root) change(from, to tree) error {
	var errs []error
	gone := slices.SortedFunc(maps.Keys(from), func(a, b string) int { return len(b) - len(a) })
	for _, path := range gone {
		if _, stays := to[path]; !stays {
			errs = append(errs, r.remove(path))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(to)) {
		if old, known := from[path]; !known || !old.equal(to[path]) {
			errs = append(errs, r.create(path, to[path]))
		}
	}
	return errors.Join(errs...)
}

// remove takes a file away, and the folders made for it that are empty then.
func (r *Root) remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	for dir := filepath.Dir(path); r.folders[dir]; dir = filepath.Dir(dir) {
		if os.Remove(dir) != nil {
			break // something else lies in it
		}
		delete(r.folders, dir)
	}
	return nil
}

// create makes a file; one that is there already is replaced at once.
func (r *Root) create(path string, e entry) error {
	if e.mode.IsDir() {
		return r.folder(path)
	}
	if err := r.folder(filepath.Dir(path)); err != nil {
		return err
	}
	fresh := filepath.Join(filepath.Dir(path), ".new-"+filepath.Base(path))
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("create %s: %w", path, err)
	}
	if err := e.write(fresh); err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	return nil
}

func (r *Root) folder(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := r.folder(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("create folder: %w", err)
	}
	r.folders[dir] = true
	return os.Chmod(dir, 0o755)
}

func (e entry) write(path string) error {
	switch {
	case e.mode&fs.ModeSymlink != 0:
		return os.Symlink(e.target, path)
	case e.mode&fs.ModeCharDevice != 0:
		// A umask may take permissions away.
		return errors.Join(unix.Mknod(path, unix.S_IFCHR|uint32(e.mode.Perm()), int(unix.Mkdev(e.major, e.minor))), os.Chmod(path, e.mode.Perm()))
	case e.copyOf != "":
		return copyFile(e.copyOf, path)
	}
	return errors.Join(os.WriteFile(path, e.data, e.mode.Perm()), os.Chmod(path, e.mode.Perm()))
}

// copyFile makes a hard link where the file system allows it, because there are many roots and large programs.
func copyFile(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(to, data, 0o755), os.Chmod(to, 0o755))
}
