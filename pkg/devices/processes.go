// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import (
	"context"
	"errors"
	"fmt"
)

// Processes lists who computes on a GPU or on its instances, in all three lists of the driver. The lists are complete only
// for a caller in the host's PID namespace, which the driver does not say: the caller must know.
func (h *Hardware) Processes(ctx context.Context, pci string) ([]Process, error) {
	result := make(chan []Process, 1)
	err := h.withGPU(ctx, pci, "list processes", func(gpu GPUHandle) error {
		all := []Process{}
		for _, kind := range []ProcessKind{ComputeProcess, GraphicsProcess, MPSProcess} {
			list, err := h.driver.Processes(gpu, kind)
			if errors.Is(err, ErrNotSupported) || errors.Is(err, ErrFunctionNotFound) {
				continue
			}
			if err != nil {
				return fmt.Errorf("list processes of GPU %s: %w", pci, err)
			}
			all = append(all, list...)
		}
		result <- all
		return nil
	})
	if err != nil {
		return nil, explained(err)
	}
	return <-result, nil
}
