// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package scenario_test tells stories on the command lines of the binaries, as txtar files in testdata.
package scenario_test

import (
	"context"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"gpuslice/internal/command"
)

func TestMain(m *testing.M) {
	main := func(b command.Binary) func() {
		return func() {
			os.Exit(b.Main(context.Background(), os.Args[1:], command.Streams{Out: os.Stdout, Err: os.Stderr}))
		}
	}
	testscript.Main(m, map[string]func(){
		"gpu-plugin": main(command.GPUPlugin()),
		"dra-driver": main(command.DRADriver()),
	})
}

func TestStories(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", RequireUniqueNames: true, RequireExplicitExec: true})
}
