// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Command nvidia-smi does on the simulated driver what this project asks of the real one: list, reset, persistence mode, time
// slice. It is static, so that it runs in every image it is mounted into, and it is a client like any other: other sessions
// are in the way of a reset.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gpuslice/pkg/devices"
	"gpuslice/test/simdriver/wire"
)

// Exit statuses follow the driver's answers, as those of the real program do.
const (
	statusUsage   = 2
	statusUnknown = 255
)

var errUsage = errors.New("usage: nvidia-smi -L | -r [-i ID] | -pm 0|1 [-i ID] | compute-policy [-i ID] --list | --set-timeslice N")

func main() {
	err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stdout, err)
	}
	os.Exit(statusOf(err))
}

func statusOf(err error) int {
	if err == nil {
		return 0
	}
	if errors.Is(err, errUsage) {
		return statusUsage
	}
	if code, ok := errors.AsType[devices.Code](err); ok && code < statusUnknown {
		return int(code)
	}
	return statusUnknown
}

func run(args []string, out io.Writer) error {
	job, err := parse(args)
	if err != nil {
		return err
	}
	c, err := wire.Dial(driverRoot())
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Call("nvmlInit_v2"); err != nil {
		return err
	}
	return job(client{c}, out)
}

// driverRoot is what stands before usr/bin in the program's own path.
func driverRoot() string {
	self, err := os.Executable()
	if err != nil {
		return "/"
	}
	root, found := strings.CutSuffix(filepath.Dir(self), "/usr/bin")
	if !found || root == "" {
		return "/"
	}
	return root
}
