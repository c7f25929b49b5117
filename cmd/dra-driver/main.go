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
	binary := command.Binary{
		Name: "dra-driver",
		APIs: "dra",
		Commands: []command.Command{
			command.RunCommand(),
			command.SlicesCommand(),
			command.VersionCommand(),
		},
	}
	os.Exit(binary.Main(context.Background(), os.Args[1:], command.Streams{Out: os.Stdout, Err: os.Stderr}))
}
