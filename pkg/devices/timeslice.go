// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import (
	"context"
	"fmt"

	"gpuslice/pkg/timeslice"
)

// TimeSlice reads a GPU's time slice.
func (h *Hardware) TimeSlice(ctx context.Context, pci string) (timeslice.Interval, error) {
	if h.opts.Program == nil {
		return 0, fmt.Errorf("there is nothing here to read time slices with: %w", ErrNotSupported)
	}
	ctx, cancel := context.WithTimeout(ctx, h.opts.CallLimit)
	defer cancel()
	n, err := h.opts.Program.TimeSlice(ctx, longBusID(pci))
	if err != nil {
		return 0, fmt.Errorf("read time slice of GPU %s: %w", pci, err)
	}
	return timeslice.Interval(n), nil
}

// SetTimeSlice sets a GPU's time slice and reads it back.
func (h *Hardware) SetTimeSlice(ctx context.Context, pci string, i timeslice.Interval) error {
	if h.opts.Program == nil {
		return fmt.Errorf("there is nothing here to set time slices with: %w", ErrNotSupported)
	}
	limited, cancel := context.WithTimeout(ctx, h.opts.CallLimit)
	defer cancel()
	if err := h.opts.Program.SetTimeSlice(limited, longBusID(pci), int(i)); err != nil {
		return fmt.Errorf("set time slice of GPU %s to %s: %w", pci, i, err)
	}
	is, err := h.TimeSlice(ctx, pci)
	if err == nil && is != i {
		err = fmt.Errorf("set time slice of GPU %s to %s: it reads back as %s", pci, i, is)
	}
	return err
}
