// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Command cluster runs a real single-node Kubernetes for tests: etcd, API server, controller manager, scheduler, kubelet and
// containerd, built from Go modules, in namespaces of its own. It needs root, runc and the CNI plugins, and no Docker.
//
//	go run ./test/cluster build            build what the cache lacks and print the paths
//	go run ./test/cluster up               bring a node up and keep it until interrupted
//	go run ./test/cluster exec -- CMD ...  run a command inside a fresh node and return its exit status
//	go run ./test/cluster demo             tell the story of test/demo in a fresh node
//	go run ./test/cluster smoke            inside a node: a pod from creation to deletion, and a kubelet restart
//
// The command finds KUBECONFIG, GPUSLICE_CLUSTER_DIR, GPUSLICE_NODE_NAME and CONTAINERD_ADDRESS in its environment; package
// node is the library for tests. K8S=1.34.4 chooses another release from modules/kubernetes-1.34.4. If anything fails, the logs of all
// programs stay, and the folder is printed.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"gpuslice/test/cluster/binaries"
	"gpuslice/test/cluster/boot"
)

const usage = "usage: cluster build | up | exec -- CMD [ARG...] | demo | smoke"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		status = boot.StatusBroken
	}
	os.Exit(status)
}

func run(ctx context.Context, args []string) (status int, err error) {
	if len(args) == 0 {
		return 0, errors.New(usage)
	}
	switch command, rest := args[0], args[1:]; command {
	case "build":
		programs, err := build(ctx)
		for _, name := range slices.Sorted(maps.Keys(programs)) {
			fmt.Println(programs[name])
		}
		return 0, err
	case "up":
		return launch(ctx, nil)
	case "exec":
		if len(rest) < 2 || rest[0] != "--" {
			return 0, errors.New(usage)
		}
		return launch(ctx, rest[1:])
	case "demo":
		return demo(ctx)
	case "smoke":
		return 0, smoke(ctx, os.Stderr)
	case boot.StageInit:
		return boot.Init(rest)
	case boot.StageNode:
		if len(rest) == 0 {
			return 0, errors.New("the inside got no settings")
		}
		return boot.Inside(ctx, rest[0], rest[1:], os.Stderr)
	default:
		return 0, fmt.Errorf("unknown command %q; %s", command, usage)
	}
}

func build(ctx context.Context) (map[string]string, error) {
	modules, err := binaries.ModulesDir()
	if err != nil {
		return nil, err
	}
	cache, err := binaries.CacheDir()
	if err != nil {
		return nil, err
	}
	return binaries.Ensure(ctx, modules, cache, binaries.Modules(os.Getenv("K8S")), os.Stderr)
}

// demo builds what it shows, from the tree that it stands in, and shows it in a node.
func demo(ctx context.Context) (status int, err error) {
	const teller = ".out/demo.bin"
	for _, args := range [][]string{{"build", "-trimpath", "-o", "bin/", "./cmd/..."}, {"build", "-trimpath", "-o", teller, "./test/demo"}} {
		if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
			return 0, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return launch(ctx, []string{teller})
}

func launch(ctx context.Context, command []string) (status int, err error) {
	programs, err := build(ctx)
	if err != nil {
		return 0, err
	}
	return boot.Launch(ctx, programs, command, os.Stderr)
}
