// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package boot

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"

	"gpuslice/test/cluster/node"
)

// networkCommands are the arguments of ip, in order. A veth pair stands in for a network card: the kernel may lack dummy devices.
func networkCommands() []string {
	return []string{
		"link set lo up",
		"address add " + serviceIP + "/32 dev lo",
		"link add node0 type veth peer name node1",
		"address add " + node.IP + "/24 dev node0",
		"link set node0 up",
		"link set node1 up",
		"route add default dev node0",
	}
}

// connect makes the node's network in the caller's network namespace.
func connect(ctx context.Context) error {
	for _, args := range networkCommands() {
		command := exec.CommandContext(ctx, ipPath, strings.Fields(args)...)
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", args, err, bytes.TrimSpace(output))
		}
	}
	return nil
}
