// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build cgo

package nvml

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	"tags.cncf.io/container-device-interface/specs-go"
)

// CommonEdits asks nvcdi for what every container with a GPU needs of the driver: libraries, programs, firmware, sockets and
// hooks. Without a hook program the hooks are left out, and containers must find the libraries by themselves.
func CommonEdits(o EditsOptions) (specs.ContainerEdits, error) {
	options := []nvcdi.Option{
		nvcdi.WithMode("nvml"),
		nvcdi.WithNvmlLib(nvml.New(nvml.WithLibraryPath(findLibrary(o.DriverRoot)))),
		nvcdi.WithDriverRoot(o.DriverRoot),
		nvcdi.WithDevRoot(o.DevRoot),
		nvcdi.WithFeatureFlags(nvcdi.FeatureDisableNvsandboxUtils),
		// It sets a limit that any pod could choose by its environment, and fails containers where the driver has none.
		nvcdi.WithDisabledHooks("apply-cuda-memory-limits"),
	}
	if o.HookPath == "" {
		options = append(options, nvcdi.WithDisabledHooks(nvcdi.HookName("all")))
	} else {
		options = append(options, nvcdi.WithNVIDIACDIHookPath(o.HookPath))
	}
	lib, err := nvcdi.New(options...)
	if err != nil {
		return specs.ContainerEdits{}, fmt.Errorf("discover the driver's files: %w", err)
	}
	edits, err := lib.GetCommonEdits()
	if err != nil {
		return specs.ContainerEdits{}, fmt.Errorf("discover the driver's files under %s: %w", o.DriverRoot, err)
	}
	if edits == nil || edits.ContainerEdits == nil {
		return specs.ContainerEdits{}, nil
	}
	return *edits.ContainerEdits, nil
}
