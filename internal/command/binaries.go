// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command

// GPUPlugin is the agent with both front ends, the admin's questions about a node, and what acts on the cluster.
func GPUPlugin() Binary {
	return Binary{
		Name: "gpu-plugin", APIs: "device-plugin,dra",
		Commands: []Command{RunCommand(), InventoryCommand(), PlanCommand(), ValidateCommand(), ConvertCommand(), CordonCommand(), VersionCommand()},
	}
}

// DRADriver is the same agent with the DRA front end only.
func DRADriver() Binary {
	return Binary{Name: "dra-driver", APIs: "dra", Commands: []Command{RunCommand(), SlicesCommand(), VersionCommand()}}
}
