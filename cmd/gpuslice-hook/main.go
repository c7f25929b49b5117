// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Command gpuslice-hook hands a container that is about to start to the agent of its node, so that the limits on its GPU memory
// stand before its process runs. Container runtimes run it; it is static and needs nothing of the driver.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"gpuslice/internal/limits/hook"
)

func main() {
	if err := hook.Run(context.Background(), os.Args[1:], os.Stdin); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", hook.Name, strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(1)
	}
}
