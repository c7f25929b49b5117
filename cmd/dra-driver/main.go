// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Command dra-driver is the node agent with the DRA front end only, and shows the ResourceSlices that it would publish.
package main

import (
	"context"
	"os"

	"gpuslice/internal/command"
)

func main() {
	os.Exit(command.DRADriver().Main(context.Background(), os.Args[1:], command.Streams{Out: os.Stdout, Err: os.Stderr}))
}
