// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package deviceplugin

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	// watchEvery is how often a server looks whether its socket is still there; the end of a stream makes it look at once. A list
	// must be open again within 30 s, and each look wakes an idle process.
	watchEvery = 5 * time.Second
	// streamLimit is how long the kubelet may take from accepting a registration to opening the stream.
	streamLimit = 10 * time.Second
	// retryEvery spaces out registrations while the kubelet is away.
	retryEvery = time.Second
	// stopLimit is how long calls in flight may take when a server closes.
	stopLimit = 20 * time.Second
)

// server offers one resource.
type server struct {
	pluginapi.UnimplementedDevicePluginServer

	resource string
	agent    Agent
	dir      string
	strategy string

	mu      sync.Mutex
	list    []*pluginapi.Device
	changed chan struct{}
	streams int           // open now
	opened  uint64        // ever
	ended   chan struct{} // capacity 1: a stream has
}

func newServer(resource string, a Agent, dir, strategy string) *server {
	return &server{resource: resource, agent: a, dir: dir, strategy: strategy, changed: make(chan struct{}), ended: make(chan struct{}, 1)}
}

// update replaces the list; streams send it when it differs.
func (s *server) update(list []*pluginapi.Device) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if equal(s.list, list) && s.list != nil {
		return
	}
	s.list = list
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *server) current() ([]*pluginapi.Device, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list, s.changed
}

// streamCounts returns how many streams are open and how many ever were, so that one that came and went between two looks
// is seen; both at one moment, so that one that opens between two reads is not taken for gone.
func (s *server) streamCounts() (open int, ever uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams, s.opened
}

// run serves under one socket name after the other until ctx ends.
func (s *server) run(ctx context.Context) error {
	logger := klog.FromContext(ctx).WithValues("resource", s.resource)
	ctx = klog.NewContext(ctx, logger)
	for ctx.Err() == nil {
		if err := s.serveOnce(ctx); err != nil && ctx.Err() == nil {
			logger.Info("Serving under a new name", "cause", err.Error())
			wait(ctx, retryEvery)
		}
	}
	return nil
}

// serveOnce lives as long as one socket name. It returns why the name is of no use any more.
func (s *server) serveOnce(ctx context.Context) error {
	path := filepath.Join(s.dir, socketName(s.resource))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer os.Remove(path)
	life, end := context.WithCancelCause(ctx)
	defer end(nil)
	g := grpc.NewServer(grpc.ChainUnaryInterceptor(logUnary(ctx)))
	pluginapi.RegisterDevicePluginServer(g, &incarnation{server: s, life: life})
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	_, before := s.streamCounts()
	if err = s.register(life, filepath.Base(path)); err == nil {
		err = s.watch(life, path, before)
	}
	end(err)
	stop(g)
	return errors.Join(err, <-served)
}

// stop lets calls in flight finish.
func stop(g *grpc.Server) {
	timer := time.AfterFunc(stopLimit, g.Stop)
	defer timer.Stop()
	g.GracefulStop()
}

// socketPrefix begins the name of every socket of ours.
const socketPrefix = "gpuslice-"

// socketName is unique for every use and short enough for a socket path.
func socketName(resource string) string {
	h := fnv.New32a()
	h.Write([]byte(resource))
	return fmt.Sprintf("%s%08x-%s.sock", socketPrefix, h.Sum32(), requestID())
}

// requestID is 8 random hex digits.
func requestID() string {
	random := make([]byte, 4)
	_, _ = rand.Read(random) // never fails, by its contract
	return hex.EncodeToString(random)
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
