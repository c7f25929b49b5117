// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrLocked is wrapped when another agent owns the node.
var ErrLocked = errors.New("another agent owns this node")

const lockName = "agent.lock"

// Lock is the ownership of a node, held for the life of the process. The file is never unlinked: a second file of the same
// name would let two agents each hold one.
type Lock struct{ file *os.File }

// Acquire takes the lock or answers ErrLocked with what the holder wrote about itself.
func Acquire(dir, self string) (*Lock, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		holder, readErr := os.ReadFile(path)
		if readErr != nil {
			holder = []byte("unknown")
		}
		return nil, fmt.Errorf("%w: %s (lock %s)", ErrLocked, strings.TrimSpace(string(holder)), path)
	}
	if err := errors.Join(f.Truncate(0), writeAt(f, self+"\n")); err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", path, err), f.Close())
	}
	return &Lock{file: f}, nil
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// Release gives the node up.
func (l *Lock) Release() error { return l.file.Close() }
