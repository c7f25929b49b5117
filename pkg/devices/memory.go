// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import (
	"context"
	"errors"
	"fmt"
)

// ReservedMemory is what the driver keeps of a GPU's memory for itself, in bytes; 0 where it does not say.
func (h *Hardware) ReservedMemory(ctx context.Context, pci string) (uint64, error) {
	return h.memory(ctx, pci, "read reserved memory", func(gpu GPUHandle) (uint64, error) {
		return optional(h.driver.ReservedMemory(gpu))
	})
}

// MemoryLimit is what the processes of a cgroup may take of a GPU, in bytes; NoMemoryLimit: all of it.
func (h *Hardware) MemoryLimit(ctx context.Context, pci, cgroup string) (uint64, error) {
	return h.memory(ctx, pci, "read the memory limit of "+cgroup, func(gpu GPUHandle) (uint64, error) {
		return h.hardLimit(gpu, cgroup)
	})
}

func (h *Hardware) hardLimit(gpu GPUHandle, cgroup string) (uint64, error) {
	l, err := h.driver.MemoryLimits(gpu, cgroup)
	if errors.Is(err, ErrNotFound) {
		return NoMemoryLimit, nil
	}
	return l.Hard, err
}

// SetMemoryLimit bounds what the processes of a cgroup may take of a GPU, and reads it back.
func (h *Hardware) SetMemoryLimit(ctx context.Context, pci, cgroup string, hard uint64) error {
	_, err := h.memory(ctx, pci, fmt.Sprintf("limit the memory of %s to %d bytes", cgroup, hard), func(gpu GPUHandle) (uint64, error) {
		if err := h.driver.SetMemoryLimits(gpu, cgroup, 0, hard); err != nil {
			return 0, err
		}
		is, err := h.hardLimit(gpu, cgroup)
		switch {
		case err != nil:
			return 0, fmt.Errorf("read the limit back: %w", err)
		case is != hard:
			return 0, fmt.Errorf("the limit reads back as %d bytes", is)
		}
		return is, nil
	})
	return err
}

// memory runs a call with a number for an answer.
func (h *Hardware) memory(ctx context.Context, pci, what string, call func(GPUHandle) (uint64, error)) (uint64, error) {
	answer := make(chan uint64, 1) // not a variable: an abandoned call must not write into what we return
	err := cutter{h, pci}.do(ctx, what, func(gpu GPUHandle) error {
		n, err := call(gpu)
		answer <- n
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("%s of GPU %s: %w", what, pci, err)
	}
	return <-answer, nil
}
