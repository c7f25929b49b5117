// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package source_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"gpuslice/internal/config"
	"gpuslice/internal/source"
)

// sink notes what sources bring.
type sink struct {
	mu    sync.Mutex
	heard []string
	full  int // so many more configs cannot be kept
}

func (s *sink) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = append(s.heard, text)
}

func (s *sink) SetConfig(_ string, text []byte) error {
	s.note("config " + string(text))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full > 0 {
		s.full--
		return errors.New("disk full")
	}
	if string(text) == "bad" {
		return config.Issues{{Message: "refused"}}
	}
	return nil
}
func (s *sink) ConfigUnavailable(err error) { s.note("unavailable " + err.Error()) }
func (s *sink) SetRuntime(version string)   { s.note("runtime " + version) }

func (s *sink) SetAnnotations(annotations map[string]string) error {
	s.note("annotations " + annotations["release"])
	return nil
}

func (s *sink) SetLabels(labels map[string]string) error {
	s.note("labels " + labels["pool"])
	return nil
}

// hears waits for the next thing that is brought.
func (s *sink) hears(t *testing.T, n int, text string) {
	t.Helper()
	start, tick := time.Now(), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for {
		s.mu.Lock()
		heard := slices.Clone(s.heard)
		s.mu.Unlock()
		if len(heard) > n {
			if !strings.Contains(heard[n], text) {
				t.Fatalf("heard %q, want %q", heard[n], text)
			}
			return
		}
		if time.Since(start) > 50*time.Second { // ten times what an edit may take
			t.Fatalf("heard %q, want %q next", heard, text)
		}
		<-tick.C
	}
}

func run(t *testing.T, source func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- source(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A file is followed through a swap of links, as ConfigMap volumes change, through a refusal, and through its absence.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.yaml")
	swap := func(text string) {
		next := filepath.Join(dir, "data-"+text)
		if err := errors.Join(os.WriteFile(next, []byte(text), 0o600), os.Symlink(next, path+".new"), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	s := &sink{}
	run(t, func(ctx context.Context) error { return source.File(ctx, path, time.Millisecond, s) })
	s.hears(t, 0, "unavailable config file")
	swap("one")
	s.hears(t, 1, "config one")
	swap("bad")
	s.hears(t, 2, "config bad")
	swap("two")
	s.hears(t, 3, "config two")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s.hears(t, 4, "unavailable")
	swap("two-again")
	s.hears(t, 5, "config two-again")
}

// P5, P11: a config that could not be kept is brought again without a new edit; one that is wrong in itself is not.
func TestConfigThatWasNotKeptIsTriedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &sink{full: 1}
	run(t, func(ctx context.Context) error { return source.File(ctx, path, time.Millisecond, s) })
	s.hears(t, 0, "config one")
	s.hears(t, 1, "config one")
}

// S04, S06: a ConfigMap that is not there is said, and so is one without the key; an edit is heard.
func TestConfigMap(t *testing.T) {
	client := fake.NewClientset()
	api := client.CoreV1().ConfigMaps("ns")
	s := &sink{}
	run(t, func(ctx context.Context) error { return source.ConfigMap(ctx, client, "ns", "c", 0, s) })
	s.hears(t, 0, "unavailable configmap ns/c does not exist")
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}, Data: map[string]string{"other.yaml": "x"}}
	if _, err := api.Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.hears(t, 1, "has no key config.yaml; it has other.yaml")
	m.Data = map[string]string{source.Key: "one"}
	if _, err := api.Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.hears(t, 2, "config one")
	if err := api.Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.hears(t, 3, "unavailable")
}

// What the admin and the kubelet write on the Node is heard, and heard again when it changes.
func TestNode(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"pool": "a"}}}
	n.Status.NodeInfo.ContainerRuntimeVersion = "containerd://1.7.27"
	client := fake.NewClientset(n)
	s := &sink{}
	run(t, func(ctx context.Context) error { return source.Node(ctx, client, "n1", s) })
	s.hears(t, 0, "runtime containerd://1.7.27")
	s.hears(t, 1, "annotations ")
	s.hears(t, 2, "labels a")
	n = n.DeepCopy()
	n.Status.NodeInfo.ContainerRuntimeVersion = "containerd://2.4.2"
	n.Labels["pool"], n.Annotations = "b", map[string]string{"release": "gpu-1"}
	if _, err := client.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.hears(t, 3, "runtime containerd://2.4.2")
	s.hears(t, 4, "annotations gpu-1")
	s.hears(t, 5, "labels b")
}
