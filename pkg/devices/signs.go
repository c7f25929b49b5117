// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import (
	"errors"

	"gpuslice/pkg/health"
)

// Signs are what the driver says of a GPU's health. Counts begin anew with the GPU; what it does not say is zero.
type Signs struct {
	Action       health.RecoveryAction // zero: the driver does not say what it needs
	Uncorrected  uint64
	RemapPending bool // rows are remapped, or pages retired, at the next start of the GPU
	RemapFailed  bool
	PowerLimited uint64 // ns for which it was slower
	HeatLimited  uint64
}

var signFields = []int{
	FieldRecoveryAction, FieldUncorrected, FieldRemapPending, FieldRetiredPending, FieldRemapFailed, FieldPowerLimited, FieldHeatLimited,
}

// readSigns asks for all signs in one call. A GPU of which they cannot be read is none of which something is known to be wrong;
// only one that is lost is an error.
func readSigns(d FieldReader, gpu GPUHandle) (Signs, error) {
	fields, err := d.Fields(gpu, signFields)
	if errors.Is(err, ErrLost) {
		return Signs{}, err
	}
	said := map[int]uint64{}
	for i, f := range fields {
		if f.Code == 0 && i < len(signFields) {
			said[signFields[i]] = f.Value
		}
	}
	s := Signs{
		Uncorrected:  said[FieldUncorrected],
		RemapPending: said[FieldRemapPending] == 1 || said[FieldRetiredPending] == 1,
		RemapFailed:  said[FieldRemapFailed] == 1,
		PowerLimited: said[FieldPowerLimited],
		HeatLimited:  said[FieldHeatLimited],
	}
	if action, ok := said[FieldRecoveryAction]; ok {
		s.Action = health.ActionOf(action)
	}
	return s, nil
}
