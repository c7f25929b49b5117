// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build cgo

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpuslice/pkg/devices"
)

func (s *session) PersistenceMode(h devices.GPUHandle) (bool, error) {
	d, err := s.gpu(h, "nvmlDeviceGetPersistenceMode")
	if err != nil {
		return false, err
	}
	mode, ret := d.GetPersistenceMode()
	return mode == nvml.FEATURE_ENABLED, code(ret)
}

func (s *session) SetPersistenceMode(h devices.GPUHandle, on bool) error {
	d, err := s.gpu(h, "nvmlDeviceSetPersistenceMode")
	if err != nil {
		return err
	}
	mode := nvml.FEATURE_DISABLED
	if on {
		mode = nvml.FEATURE_ENABLED
	}
	return code(d.SetPersistenceMode(mode))
}
