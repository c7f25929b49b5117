// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuslice/test/cluster/node"
	"gpuslice/test/stage"
)

const (
	soon   = time.Minute     // ten times what a list or pod may take on a busy machine
	lost   = 5 * time.Minute // ten times the 30 s that a lost stream may take
	config = "apiVersion: gpuslice.dev/v1alpha1\nkind: SharingConfig\n"
)

// scene is one story's node: a fresh simulated driver and a fresh agent.
type scene struct {
	*stage.Stage
	t *testing.T
}

// begin starts a driver with a machine and an agent with a config.
func begin(t *testing.T, machine, text string, flags ...string) *scene {
	t.Helper()
	return beginAt(t, stage.Place{}, machine, text, flags...)
}

// beginAt begins with a driver at a place.
func beginAt(t *testing.T, place stage.Place, machine, text string, flags ...string) *scene {
	t.Helper()
	root := os.Getenv("GPUSLICE_ROOT")
	s, err := stage.New(t.Context(), stage.Options{
		Place: place, Machine: machine, Binaries: filepath.Join(root, "bin"),
		Artifacts: filepath.Join(root, ".out/simdriver"), Logs: filepath.Join(root, ".out/e2e", t.Name()),
	})
	if err != nil {
		t.Fatal(err)
	}
	sc := &scene{Stage: s, t: t}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
		defer cancel()
		if err := sc.DeletePods(ctx); err != nil {
			t.Error(err)
		}
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := sc.Forget(ctx); err != nil {
			t.Error(err)
		}
	})
	sc.must(s.Configure(t.Context(), text))
	sc.must(s.StartAgent(t.Context(), flags...))
	return sc
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// offers waits until the node's allocatable is exactly this.
func (s *scene) offers(want map[string]int64) {
	s.t.Helper()
	s.within(soon, "allocatable", func(ctx context.Context) error {
		got, err := s.Allocatable(ctx)
		if err != nil {
			return err
		}
		if !maps.Equal(want, got) {
			return fmt.Errorf("%s", cmp.Diff(want, got))
		}
		return nil
	})
}

func (s *scene) within(limit time.Duration, what string, probe func(context.Context) error) {
	s.t.Helper()
	started := time.Now()
	if err := node.Until(s.t.Context(), limit, what, probe); err != nil {
		sessions, _ := s.Driver.Control("sessions")
		for line := range strings.Lines(sessions) {
			pid, _, _ := strings.Cut(line, " ")
			what, err := os.ReadFile("/proc/" + pid + "/cmdline")
			sessions += fmt.Sprintf("%s is %q %v (agent %d)\n", pid, what, err, s.PID())
		}
		s.t.Fatalf("%v\nmachine:\n%s\nsessions:\n%s", err, s.Driver.Machine().Dump(), sessions)
	}
	s.t.Logf("%s after %v", what, time.Since(started).Round(10*time.Millisecond))
}

// sees wants the container to see exactly these UUIDs through the driver's library.
func (s *scene) sees(pod string, want ...string) {
	s.t.Helper()
	got, err := s.Sees(s.t.Context(), pod)
	s.must(err)
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("%s sees other devices (-want +got):\n%s", pod, diff)
	}
}

// uuid is the machine's own word on a slot, or on the GPU for "".
func (s *scene) uuid(gpu int, slot string) string {
	s.t.Helper()
	for _, g := range s.Driver.Machine().GPUs() {
		if g.Number != gpu {
			continue
		}
		if slot == "" {
			return g.UUID
		}
		for _, i := range g.Instances {
			if strings.TrimSuffix(i.Slot, "*") == slot {
				return i.UUID
			}
		}
	}
	s.t.Fatalf("gpu-%d has no %s: %s", gpu, slot, s.Driver.Machine().Dump())
	return ""
}
