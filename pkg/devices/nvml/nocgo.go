// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build !cgo

package nvml

import (
	"tags.cncf.io/container-device-interface/specs-go"

	"gpuslice/pkg/devices"
)

// absent answers as a node without the library does: a build without cgo cannot load it.
type absent struct {
	devices.Driver
	root string
}

// New makes a session that cannot be opened, because this build has no cgo.
func New(o Options) devices.Driver { return absent{root: o.DriverRoot} }

func (a absent) Init() error { return notFound(a.root, libraryName, false) }

// CommonEdits cannot be discovered in this build.
func CommonEdits(o EditsOptions) (specs.ContainerEdits, error) {
	return specs.ContainerEdits{}, notFound(o.DriverRoot, libraryName, false)
}

// Platform is that of any other node without the library.
func (Host) Platform() devices.Platform { return devices.Platform{} }

// IsIntegrated has no GPU to ask about in this build.
func (Host) IsIntegrated(string) bool { return false }
