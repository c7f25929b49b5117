// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

// Fields of nvml.h 13.4 that say how a GPU is.
const (
	FieldUncorrected    = 4   // double-bit errors of all its memory since it was last started
	FieldRetiredPending = 31  // 1: pages are retired at the next start (before Ampere)
	FieldPowerLimited   = 74  // ns for which it was slower because of power
	FieldHeatLimited    = 75  // ns for which it was slower because of heat
	FieldRemapPending   = 144 // 1: rows are remapped at the next reset
	FieldRemapFailed    = 145 // 1: rows could not be remapped
	FieldRecoveryAction = 230 // nvmlDeviceGpuRecoveryAction_t, from driver 565 on
)

// Field is one value that a GPU was asked for; with a Code other than zero there is none.
type Field struct {
	Value uint64
	Code  Code
}

// FieldReader reads many values in one call.
type FieldReader interface {
	// Fields answers each number of nvml.h by itself: what a GPU or a driver does not have is ErrNotSupported there, and the others
	// are answered all the same.
	Fields(gpu GPUHandle, ids []int) ([]Field, error)
}
