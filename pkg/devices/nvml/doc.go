// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package nvml forwards the driver seam to NVIDIA's library through go-nvml, one to one. It is the only package that needs
// cgo, and it decides nothing.
//
// A call whose symbol an older library lacks would kill the process at the first use, so every call that is not as old as
// NVML itself is looked up before it is made and answers FUNCTION_NOT_FOUND instead.
package nvml

// Options of a session.
type Options struct {
	// DriverRoot is where the driver is installed; libnvidia-ml.so.1 is looked up under it, then by the loader.
	DriverRoot string
}

// EditsOptions say where the driver's files and the hook program are.
type EditsOptions struct {
	DriverRoot string
	HookPath   string // nvidia-cdi-hook; "" = no hooks
}

// Host is where the files are that tell what kind of machine this is.
type Host struct {
	DriverRoot string
	DevRoot    string
	ProcRoot   string
	SysRoot    string
}
