// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package boot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gpuslice/test/cluster/node"
)

const (
	clusterDir = node.Dir("/run/gpuslice")

	// serviceIP is the address of the API server for pods: the first of the service range.
	serviceIP    = "10.96.0.1"
	serviceRange = "10.96.0.0/16"
	podRange     = "10.244.0.0/16"

	runcPath = "/usr/sbin/runc"
	cniPath  = "/usr/lib/cni"
	ipPath   = "/sbin/ip"
)

// Settings is what the machine side tells the inside.
type Settings struct {
	// Programs are the absolute paths of the cluster's programs by name.
	Programs map[string]string
	// Cgroup is the name of the node's cgroup below the root of every hierarchy.
	Cgroup string
	// Logs is a folder of the machine that gets one log per program.
	Logs string
}

// Environment is what a command inside the cluster finds besides the caller's environment.
func Environment() []string {
	return []string{
		"KUBECONFIG=" + clusterDir.Kubeconfig(),
		node.EnvDir + "=" + string(clusterDir),
		node.EnvNodeName + "=" + node.Name,
		node.EnvContainerd + "=" + node.ContainerdSocket,
	}
}

// checkMachine says what the machine lacks, all at once.
func checkMachine() error {
	var missing []error
	if os.Geteuid() != 0 {
		missing = append(missing, errors.New("it needs root for namespaces and mounts"))
	}
	for _, path := range []string{runcPath, ipPath, filepath.Join(cniPath, "bridge"), "/bin/busybox"} {
		if _, err := os.Stat(path); err != nil {
			missing = append(missing, fmt.Errorf("%w (install the packages of test/cluster/debian-packages.txt)", err))
		}
	}
	return errors.Join(missing...)
}
