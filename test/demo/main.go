// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Command demo shows the main job on a real Kubernetes node with simulated GPUs and checks every value that it shows.
//
// It runs inside "cluster exec". DEMO_CONFIG names another story; DEMO_SABOTAGE=n spoils the subject of check n in the
// cluster, and the demo must then fail and name that check.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gpuslice/test/stage"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Println("\nDEMO FAILED:", err)
		os.Exit(1)
	}
	fmt.Println("\nDEMO PASSED")
}

func run(ctx context.Context) (err error) {
	s, err := load(cmp.Or(os.Getenv("DEMO_CONFIG"), "test/cluster/testdata/demo.yaml"))
	if err != nil {
		return err
	}
	sabotage, err := strconv.Atoi(cmp.Or(os.Getenv("DEMO_SABOTAGE"), "0"))
	if err != nil || sabotage < 0 || sabotage > len(checks) {
		return fmt.Errorf("DEMO_SABOTAGE=%q is not a check from 1 to %d", os.Getenv("DEMO_SABOTAGE"), len(checks))
	}
	d := &demo{story: s}
	if d.before, err = expect(s.Config); err != nil {
		return err
	}
	if d.after, err = expect(s.Edit); err != nil {
		return err
	}
	fmt.Printf("A node with %s, and this config:\n\n%s\n", s.Machine, indent(s.Config))
	d.Stage, err = stage.New(ctx, stage.Options{Machine: s.Machine, Binaries: "bin", Artifacts: ".out/simdriver", Logs: ".out/demo"})
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, d.DeletePods(closing), d.Close(closing), d.Forget(closing))
	}()
	return d.tell(ctx, sabotage)
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ") + "\n"
}
