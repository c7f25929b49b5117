// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package dra_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"gpuslice/internal/agent"
	"gpuslice/internal/dra"
	"gpuslice/internal/state"
	"gpuslice/pkg/cdi"
)

// blindAgent has verified nothing yet; its Reserve waits until it is let go.
type blindAgent struct {
	let      chan struct{}
	reserved chan struct{}
	released []string
}

func (b *blindAgent) View() (*agent.View, <-chan struct{}) { return nil, nil }

func (b *blindAgent) Reserve(state.Claim, []string) ([]agent.Device, error) {
	close(b.reserved)
	<-b.let
	return []agent.Device{whole(h100())}, nil
}

func (b *blindAgent) Release(uid string) error {
	b.released = append(b.released, uid)
	return nil
}

func (b *blindAgent) Claims() map[string]state.Claim { return nil }

// noSpecs writes nothing.
type noSpecs struct{}

func (noSpecs) Resolve(t cdi.Target) (cdi.Device, error) { return cdi.Device{Names: t.Names}, nil }
func (noSpecs) WriteClaim(string, []cdi.Device) error    { return nil }
func (noSpecs) RemoveClaim(string) error                 { return nil }
func (noSpecs) Claims() ([]string, error)                { return nil, nil }

// slowSpecs notes what is done and takes its time to write.
type slowSpecs struct {
	noSpecs
	entered, let chan struct{}
	done         []string
}

func (s *slowSpecs) WriteClaim(string, []cdi.Device) error {
	close(s.entered)
	<-s.let
	s.done = append(s.done, "written")
	return nil
}

func (s *slowSpecs) RemoveClaim(string) error {
	s.done = append(s.done, "removed")
	return nil
}

// A kubelet that gives up waiting may unprepare what is still being prepared: the spec must not outlive the intent.
func TestUnprepareWaitsForPrepare(t *testing.T) {
	t.Parallel()
	a := &blindAgent{let: make(chan struct{}), reserved: make(chan struct{})}
	close(a.let)
	s := &slowSpecs{entered: make(chan struct{}), let: make(chan struct{})}
	d := dra.New(a, s, dra.Options{NodeName: "n1"})
	c := claimFor("c", "gpu-0")
	var calls sync.WaitGroup
	calls.Go(func() {
		if got, err := d.PrepareResourceClaims(t.Context(), []*resourceapi.ResourceClaim{c}); err != nil || got["c"].Err != nil {
			t.Error(got, err)
		}
	})
	<-s.entered
	calls.Go(func() {
		if got, err := d.UnprepareResourceClaims(t.Context(), []kubeletplugin.NamespacedObject{{UID: "c"}}); err != nil || got["c"] != nil {
			t.Error(got, err)
		}
	})
	early := time.AfterFunc(100*time.Millisecond, func() { close(s.let) }) // long enough for a call that does not wait
	defer early.Stop()
	calls.Wait()
	if !slices.Equal(s.done, []string{"written", "removed"}) {
		t.Errorf("order was %v", s.done)
	}
}

// P6: before the first view the slices of the process before stay, and letting go needs no hardware. At the end calls in
// flight are answered first.
func TestBeforeTheFirstViewAndAtTheEnd(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "dra")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	n := &node{t: t, dir: dir, client: newServer()}
	name := "n1"
	before := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "before"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: dra.DriverName, NodeName: &name, Pool: resourceapi.ResourcePool{Name: name, ResourceSliceCount: 1},
		Devices: []resourceapi.Device{{Name: "gpu-0"}},
	}}
	if _, err := n.client.ResourceV1().ResourceSlices().Create(t.Context(), before, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	blind := &blindAgent{let: make(chan struct{}), reserved: make(chan struct{})}
	stop := run(t, dra.New(blind, noSpecs{}, dra.Options{NodeName: name, KubeletDir: n.kubeletDir(), Client: n.client}).Run)
	k := register(t, n.kubeletDir())
	k.unprepare("old")
	if !slices.Equal(blind.released, []string{"old"}) {
		t.Errorf("released %v", blind.released)
	}
	c := n.allocate("c", "gpu-0")
	answered := make(chan string, 1)
	go func() {
		answer, err := k.ask(c)
		answered <- fmt.Sprintf("%d devices, %q, %v", len(answer.GetDevices()), answer.GetError(), err)
	}()
	<-blind.reserved
	if got := n.published(); got != "gpu-0" {
		t.Errorf("published is %q: the slices of the process before were touched", got)
	}
	ended := make(chan struct{})
	go func() { stop(); close(ended) }()
	select {
	case <-ended:
		t.Error("ended while a call was in flight")
	case got := <-answered:
		t.Errorf("answered before it was let go: %s", got)
	case <-time.After(200 * time.Millisecond):
	}
	close(blind.let)
	if got := <-answered; got != `1 devices, "", <nil>` {
		t.Errorf("the call in flight was answered with %s", got)
	}
	<-ended
}

// A server that ends ends the driver, with the cause; what a retry cures does not.
func TestErrorsInTheBackground(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "dra")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := dra.New(&blindAgent{}, noSpecs{}, dra.Options{NodeName: "n1", KubeletDir: dir, Client: newServer()})
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { ended <- d.Run(ctx) }()
	d.HandleError(ctx, fmt.Errorf("the API server is away: %w", kubeletplugin.ErrRecoverable), "publish")
	select {
	case err := <-ended:
		t.Fatalf("ended by an error that a retry cures: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	broken := errors.New("listener broke")
	d.HandleError(ctx, broken, "DRA gRPC server failed")
	if err := <-ended; !errors.Is(err, broken) {
		t.Errorf("ended with %v", err)
	}
}
