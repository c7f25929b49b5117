// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Command soak lets one agent live through many rounds of what happens to a node, in random order: pods, edits, kubelet
// restarts, agent kills, GPUs that are lost and come back. At the end of every round the node must offer exactly what its config
// says, no pod may have been disturbed, and nothing may be left behind.
//
// It runs inside "cluster exec". SOAK_ROUNDS says how many (50), SOAK_SEED which (random), and SOAK_PLANT=leak-socket, leak-gi
// or grow plants a fault of that kind, which it must then find.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"gpuslice/test/stage"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == balloonRole {
		balloon()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Println("\nSOAK FAILED:", err)
		os.Exit(1)
	}
	fmt.Println("\nSOAK PASSED")
}

func run(ctx context.Context) (err error) {
	rounds, err := strconv.Atoi(cmp.Or(os.Getenv("SOAK_ROUNDS"), "50"))
	if err != nil {
		return fmt.Errorf("SOAK_ROUNDS: %w", err)
	}
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("SOAK_SEED"), strconv.FormatInt(time.Now().UnixNano(), 10)), 10, 64)
	if err != nil {
		return fmt.Errorf("SOAK_SEED: %w", err)
	}
	fmt.Printf("%d rounds, SOAK_SEED=%d\n", rounds, seed)
	s, err := stage.New(ctx, stage.Options{Machine: machine, Binaries: "bin", Artifacts: ".out/simdriver", Logs: ".out/soak"})
	if err != nil {
		return err
	}
	l := &life{Stage: s, random: rand.New(rand.NewPCG(seed, 0)), counts: map[string]int{}, plant: os.Getenv("SOAK_PLANT")}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		l.endBalloon()
		err = errors.Join(err, l.DeletePods(closing), l.Close(closing), l.Forget(closing))
	}()
	err = l.live(ctx, rounds)
	for _, e := range events {
		fmt.Printf("%-16s %d\n", e.name, l.counts[e.name])
	}
	return err
}
