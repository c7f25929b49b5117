// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpuslice/test/cluster/node"
	"gpuslice/test/simdriver/driverroot"
	"gpuslice/test/specwalk"
	"gpuslice/test/stage"
)

// C01, C03: wherever the driver is installed, a pod starts through the runtime, the driver's library works in it, it sees its slice
// and nothing else, and everything that the published specs name is there.
func TestDriverRoots(t *testing.T) {
	const gke = "/home/kubernetes"
	for _, tt := range []struct {
		name  string
		place stage.Place
	}{
		{"host", stage.Place{Root: "/", Dev: "/"}},
		{"driver container", stage.Place{Root: "/run/nvidia/driver", Layout: driverroot.RedHat()}},
		{"driver container, nodes of the host", stage.Place{Root: "/run/nvidia/driver", Dev: "/", Layout: driverroot.Debian()}},
		{"GKE", stage.Place{Root: gke + "/bin/nvidia", Dev: "/", Layout: driverroot.COS()}},
		{"merged usr", stage.Place{Root: "/run/nvidia/driver", Layout: driverroot.Merged()}},
		{"merged usr, absolute links", stage.Place{Root: "/run/nvidia/driver", Layout: driverroot.MergedAbsolute()}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if strings.HasPrefix(tt.place.Root, gke) {
				memory(t, gke)
			}
			s := beginAt(t, tt.place, "1xh100-sxm5-80gb,1xl40s", config+`
layouts: {inference: {mig: {instances: {3g.40gb: 1, 1g.10gb: 1}}}}
nodes: [{gpus: [{select: {index: 0}, layout: inference}]}]
`)
			s.offers(map[string]int64{"nvidia.com/gpu": 1, "nvidia.com/mig-3g.40gb": 1, "nvidia.com/mig-1g.10gb": 1})
			s.must(s.Run(t.Context(), stage.Workload{Name: "slice", Resource: "nvidia.com/mig-3g.40gb"}))
			s.must(s.Run(t.Context(), stage.Workload{Name: "whole", Resource: "nvidia.com/gpu"}))
			s.sees("slice", s.uuid(0, ""), s.uuid(0, "3g.40gb@4"))
			s.sees("whole", s.uuid(1, ""))
			out, _, err := s.Exec(t.Context(), node.Container{Namespace: stage.Namespace, Pod: "whole", Name: "main"}, "nvidia-smi", "-L")
			if err != nil || strings.Count(out, "GPU ") != 1 {
				t.Errorf("nvidia-smi in the container: %v: %q", err, out)
			}
			if err := specwalk.Directory(node.CDIDir); err != nil {
				t.Error(err)
			}
			s.condition("AsConfigured")
		})
	}
}

// memory keeps what is written below a folder in memory, for this test.
func memory(t *testing.T, dir string) {
	t.Helper()
	made := os.Mkdir(dir, 0o755)
	if made != nil && !errors.Is(made, fs.ErrExist) {
		t.Fatal(made)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := unix.Unmount(dir, unix.MNT_DETACH)
		if made == nil {
			err = errors.Join(err, os.Remove(dir))
		}
		if err != nil {
			t.Error(err)
		}
	})
}

// condition waits for a reason of the condition, and returns its message.
func (s *scene) condition(reason string, says ...string) (message string) {
	s.t.Helper()
	s.within(soon, "condition "+reason, func(ctx context.Context) error {
		c, err := s.Condition(ctx)
		if err != nil {
			return err
		}
		for _, word := range says {
			if !strings.Contains(c.Message, word) {
				return fmt.Errorf("no %q in %s: %s", word, c.Reason, c.Message)
			}
		}
		if c.Reason != reason {
			return fmt.Errorf("%s: %s", c.Reason, c.Message)
		}
		message = c.Message
		return nil
	})
	return message
}

// K07, P12: a pod that asks for nothing and has every GPU in its environment, as the images of CUDA have, sees none. With the
// envvar strategy it is the runtime's matter, and the node says so.
func TestEnvironmentShowsNothing(t *testing.T) {
	s := begin(t, "2xl40s", config+"nodes: [{gpus: [{layout: whole}]}]\n")
	s.offers(map[string]int64{"nvidia.com/gpu": 2})
	for name, value := range map[string]string{"all": "all", "index": "0,1", "uuid": s.uuid(0, "")} {
		pod := stage.Workload{Name: "env-" + name}.Pod()
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NVIDIA_VISIBLE_DEVICES", Value: value}, {Name: "NVIDIA_DRIVER_CAPABILITIES", Value: "all"}}
		_, err := s.Client.CoreV1().Pods(stage.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		s.must(err)
		s.must(s.PodRunning(t.Context(), stage.Namespace, pod.Name))
		nodes, err := s.Nodes(t.Context(), pod.Name)
		if diff := cmp.Diff([]string{}, nodes); err != nil || diff != "" {
			t.Errorf("%s: %v, /dev (-want +got):\n%s", pod.Name, err, diff)
		}
		if seen, err := s.Sees(t.Context(), pod.Name); err == nil {
			t.Errorf("%s: the driver's library is there and shows %v", pod.Name, seen)
		}
	}
	s.condition("AsConfigured")
	s.must(s.StopAgent(t.Context()))
	s.must(s.StartAgent(t.Context(), "--device-list-strategy=envvar"))
	s.condition("AsConfigured", "EnvInjectionOpen", "NVIDIA_VISIBLE_DEVICES=all")
}

// A directory that the runtime does not read is seen by the first container, which the runtime refuses to make; when the agent
// writes where the runtime reads, the container starts and the word is taken back.
func TestDirectoryThatNobodyReads(t *testing.T) {
	const elsewhere = "/run/specs-nobody-reads"
	stale, err := filepath.Glob(filepath.Join(node.CDIDir, "*.json")) // of agents before, which leave their specs for containers that start again
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stale {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	s := begin(t, "1xl40s", config+"nodes: [{gpus: [{layout: whole}]}]\n", "--cdi-dir="+elsewhere)
	s.offers(map[string]int64{"nvidia.com/gpu": 1})
	s.condition("AsConfigured") // nothing shows it yet
	_, err = s.Client.CoreV1().Pods(stage.Namespace).Create(t.Context(), stage.Workload{Name: "first", Resource: "nvidia.com/gpu"}.Pod(), metav1.CreateOptions{})
	s.must(err)
	s.condition("CDINotInjected", stage.Namespace+"/first/main", elsewhere, "--cdi-dir")
	s.must(s.StopAgent(t.Context()))
	s.must(s.StartAgent(t.Context()))
	s.must(s.PodRunning(t.Context(), stage.Namespace, "first"))
	s.sees("first", s.uuid(0, ""))
	s.condition("AsConfigured")
}
