// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build cgo

package nvml

import (
	"encoding/binary"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpuslice/pkg/devices"
)

func (s *session) Fields(h devices.GPUHandle, ids []int) ([]devices.Field, error) {
	d, err := s.gpu(h, "nvmlDeviceGetFieldValues")
	if err != nil {
		return nil, err
	}
	values := make([]nvml.FieldValue, len(ids))
	for i, id := range ids {
		values[i].FieldId = uint32(id)
	}
	if ret := d.GetFieldValues(values); ret != nvml.SUCCESS {
		return nil, code(ret)
	}
	fields := make([]devices.Field, len(ids))
	for i, v := range values {
		fields[i] = devices.Field{Value: number(v), Code: devices.Code(v.NvmlReturn)}
	}
	return fields, nil
}

// number reads a value by its type; none that is asked for here is a fraction or below zero.
func number(v nvml.FieldValue) uint64 {
	switch nvml.ValueType(v.ValueType) {
	case nvml.VALUE_TYPE_UNSIGNED_INT, nvml.VALUE_TYPE_SIGNED_INT:
		return uint64(binary.NativeEndian.Uint32(v.Value[:]))
	case nvml.VALUE_TYPE_UNSIGNED_SHORT:
		return uint64(binary.NativeEndian.Uint16(v.Value[:]))
	default:
		return binary.NativeEndian.Uint64(v.Value[:])
	}
}
