// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Code is an answer of the driver other than success; its values are those of nvmlReturn_t in nvml.h.
// Every error that crosses the Driver seam is a Code, so errors.Is(err, ErrInUse) works on anything wrapped around it.
type Code int

// The answers that the adapter or a simulator tells apart.
const (
	ErrUninitialized         Code = 1
	ErrInvalidArgument       Code = 2
	ErrNotSupported          Code = 3
	ErrNoPermission          Code = 4
	ErrNotFound              Code = 6
	ErrInsufficientSize      Code = 7
	ErrDriverNotLoaded       Code = 9
	ErrTimeout               Code = 10
	ErrLibraryNotFound       Code = 12
	ErrFunctionNotFound      Code = 13
	ErrLost                  Code = 15
	ErrResetRequired         Code = 16
	ErrOperatingSystem       Code = 17
	ErrVersionMismatch       Code = 18
	ErrInUse                 Code = 19
	ErrInsufficientResources Code = 23
	ErrUnknown               Code = 999
)

var codeNames = map[Code]string{
	ErrUninitialized:         "UNINITIALIZED",
	ErrInvalidArgument:       "INVALID_ARGUMENT",
	ErrNotSupported:          "NOT_SUPPORTED",
	ErrNoPermission:          "NO_PERMISSION",
	ErrNotFound:              "NOT_FOUND",
	ErrInsufficientSize:      "INSUFFICIENT_SIZE",
	ErrDriverNotLoaded:       "DRIVER_NOT_LOADED",
	ErrTimeout:               "TIMEOUT",
	ErrLibraryNotFound:       "LIBRARY_NOT_FOUND",
	ErrFunctionNotFound:      "FUNCTION_NOT_FOUND",
	ErrLost:                  "GPU_IS_LOST",
	ErrResetRequired:         "RESET_REQUIRED",
	ErrOperatingSystem:       "OPERATING_SYSTEM",
	ErrVersionMismatch:       "LIB_RM_VERSION_MISMATCH",
	ErrInUse:                 "IN_USE",
	ErrInsufficientResources: "INSUFFICIENT_RESOURCES",
	ErrUnknown:               "UNKNOWN",
}

// Error names the code as nvml.h does, without the NVML_ERROR_ prefix.
func (c Code) Error() string {
	if name, ok := codeNames[c]; ok {
		return "driver answered " + name
	}
	return fmt.Sprintf("driver answered code %d", int(c))
}

// explained says what to do about an answer that the driver gives without a reason.
func explained(err error) error {
	if !errors.Is(err, ErrNoPermission) {
		return err
	}
	return fmt.Errorf("%w: this process needs root, or /dev/nvidia-caps/nvidia-cap1 (mig/config) and nvidia-cap2 (mig/monitor)", err)
}

// ParseCode reads a name of nvml.h without the NVML_ERROR_ prefix, "IN_USE"; the error lists the valid names.
func ParseCode(name string) (Code, error) {
	for code, known := range codeNames {
		if known == name {
			return code, nil
		}
	}
	return 0, fmt.Errorf("unknown driver answer %q; valid answers: %s", name, strings.Join(slices.Sorted(maps.Values(codeNames)), ", "))
}
