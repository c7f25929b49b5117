// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

// The kinds of machines whose GPUs are no devices of their own, so that nothing of them can be handed to a container alone.
const (
	Tegra = "Tegra" // a system on a chip, such as Jetson, with the GPU in it
	WSL   = "WSL"   // Windows shows all GPUs as one device
)

// Platform is what kind of machine this is; the zero value is one whose GPUs can be handed out.
type Platform struct {
	Name  string // Tegra, WSL or ""
	Found string // what says so: "/etc/nv_tegra_release"
}

// Platforms tells the kinds apart.
type Platforms interface {
	// Platform looks at the host, without a session of the driver.
	Platform() Platform
	// IsIntegrated says that a GPU of that name is a part of a system on a chip.
	IsIntegrated(product string) bool
}
