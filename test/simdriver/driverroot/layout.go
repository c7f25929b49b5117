// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package driverroot

import (
	"path/filepath"
	"runtime"
)

// Layout is where a distribution, a driver container or an installer puts what the driver brings.
type Layout struct {
	Libraries, Programs, Firmware string
	Links                         map[string]string // of folders, such as lib to usr/lib
}

// Debian has its libraries in a folder for each architecture, where container images look too.
func Debian() Layout {
	libraries := "usr/lib/x86_64-linux-gnu"
	if runtime.GOARCH == "arm64" {
		libraries = "usr/lib/aarch64-linux-gnu"
	}
	return Layout{Libraries: libraries, Programs: "usr/bin", Firmware: "lib/firmware"}
}

// RedHat is a driver container, or a host, of that family before /usr was merged.
func RedHat() Layout {
	return Layout{Libraries: "usr/lib64", Programs: "usr/bin", Firmware: "lib/firmware"}
}

// COS is what GKE's installer makes on Container-Optimized OS: libraries and programs right below the root.
func COS() Layout {
	return Layout{Libraries: "lib64", Programs: "bin", Firmware: "firmware"}
}

// Merged has everything below usr, and links where it was before.
func Merged() Layout { return merged("") }

// MergedAbsolute is Merged with links that lead out of the root for whoever does not live in it.
func MergedAbsolute() Layout { return merged("/") }

func merged(prefix string) Layout {
	return Layout{
		Libraries: "usr/lib64", Programs: "usr/bin", Firmware: "usr/lib/firmware",
		Links: map[string]string{"lib": prefix + "usr/lib", "lib64": prefix + "usr/lib64", "bin": prefix + "usr/bin"},
	}
}

func (p Paths) layout() Layout {
	if p.Layout.Libraries == "" {
		return Debian()
	}
	return p.Layout
}

// NVML is the path of the library below a driver root.
func (p Paths) NVML() string { return filepath.Join(p.Libraries(), "libnvidia-ml.so.1") }

// Libraries is the folder of the libraries.
func (p Paths) Libraries() string { return filepath.Join(p.Root, p.layout().Libraries) }

// SMI is the path of nvidia-smi.
func (p Paths) SMI() string { return filepath.Join(p.Root, p.layout().Programs, "nvidia-smi") }
