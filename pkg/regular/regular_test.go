// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package regular_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"gpuslice/pkg/regular"
)

// P3: whatever is at the place of a file, a read ends at once and takes no more memory than it may.
func TestReadFile(t *testing.T) {
	write := func(text string) func(path string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	for _, tc := range []struct {
		why  string
		make func(path string) error
		want string
		err  error
	}{
		{"a file", write("1234"), "1234", nil},
		{"an empty one", write(""), "", nil},
		{"one byte too long", write("12345"), "", regular.ErrOdd},
		{"a file as long as memory, of which nothing is on the disk", func(path string) error {
			return errors.Join(write("")(path), os.Truncate(path, 1<<40))
		}, "", regular.ErrOdd},
		{"a pipe that nobody writes", func(path string) error { return syscall.Mkfifo(path, 0o600) }, "", regular.ErrOdd},
		{"a folder", func(path string) error { return os.Mkdir(path, 0o700) }, "", regular.ErrOdd},
		{"a device without end", func(path string) error { return os.Symlink("/dev/zero", path) }, "", regular.ErrOdd},
		{"a link to a file, as volumes have them", func(path string) error {
			return errors.Join(write("ab")(path+".real"), os.Symlink(path+".real", path))
		}, "ab", nil},
		{"a link to itself", func(path string) error { return os.Symlink(path, path) }, "", syscall.ELOOP},
		{"nothing", func(string) error { return nil }, "", fs.ErrNotExist},
	} {
		t.Run(tc.why, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			if err := tc.make(path); err != nil {
				t.Fatal(err)
			}
			text, err := regular.ReadFile(path, 4)
			if string(text) != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("read %q, %v; want %q, %v", text, err, tc.want, tc.err)
			}
		})
	}
}
