// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Command gpu-plugin is the node agent with one or both API front ends, and the admin's questions about a node.
package main

import (
	"context"
	"os"

	"gpuslice/internal/command"
)

func main() {
	os.Exit(command.GPUPlugin().Main(context.Background(), os.Args[1:], command.Streams{Out: os.Stdout, Err: os.Stderr}))
}
