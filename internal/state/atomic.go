// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// WriteFile replaces a file so that a crash at any moment leaves the old content or the new one, and nothing else that
// a later start would read.
func WriteFile(path string, content []byte, mode os.FileMode) (err error) {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, temporary(filepath.Base(path), "*"))
	if err != nil {
		return fmt.Errorf("write %s: %w", path, cause(err))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, cause(ignoreMissing(os.Remove(tmp.Name()))))
		}
	}()
	for _, step := range []func() error{
		func() error { _, err := tmp.Write(content); return err },
		func() error { return tmp.Chmod(mode) }, tmp.Sync,
	} {
		if err = step(); err != nil {
			return errors.Join(fmt.Errorf("write %s: %w", path, cause(err)), cause(tmp.Close()))
		}
	}
	if err = errors.Join(tmp.Close(), os.Rename(tmp.Name(), path)); err != nil {
		return fmt.Errorf("write %s: %w", path, cause(err))
	}
	return syncDir(dir)
}

// cause is what is wrong, without the name of the temporary file, which is another with every try.
func cause(err error) error {
	if onPath, ok := errors.AsType[*os.PathError](err); ok {
		return onPath.Err
	}
	if onLink, ok := errors.AsType[*os.LinkError](err); ok {
		return onLink.Err
	}
	return err
}

// temporary names a file that is being written.
func temporary(name, unique string) string { return "." + name + ".tmp-" + unique }

// Remove deletes a file durably; one that is gone already is success.
func Remove(path string) error {
	if err := os.Remove(path); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
