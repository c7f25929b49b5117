// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package command is the command line that the binaries share: the agent itself and the admin's questions about a node.
//
// Each subcommand has a file. All write to the writers they are given and return an exit status, so that tests run them in
// process and see what a shell would.
package command

//go:generate go run generate.go
