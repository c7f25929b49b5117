// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package regular reads files at places where anything may be: a pipe that nobody writes, a device, a file without end. None of
// them keeps a reader waiting or fills its memory.
package regular

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// ErrOdd is wrapped by the error of a file that is there and is not read: it is no regular file, or too long.
var ErrOdd = errors.New("not read")

// ReadFile reads a regular file, or one that a link leads to, of at most so many bytes.
func ReadFile(path string, most int) ([]byte, error) {
	// A pipe would be waited for, a device might do anything when it is opened for longer.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is no regular file", ErrOdd, path)
	}
	text, err := io.ReadAll(io.LimitReader(file, int64(most)+1))
	if err != nil {
		return nil, err
	}
	if len(text) > most {
		return nil, fmt.Errorf("%w: %s is longer than %d bytes", ErrOdd, path, most)
	}
	return text, nil
}
