// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package kubelet is the kubelet's side of the device plugin protocol, for tests: strict where the real one is strict, and
// with its faults at hand. It wipes the directory when it starts, refuses a socket name that it still holds, and can cut
// streams, go away and come back.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Kubelet is one kubelet directory with a device manager in it.
type Kubelet struct {
	t   testing.TB
	Dir string

	mu        sync.Mutex
	server    *grpc.Server
	plugins   map[string]*plugin // by resource
	endpoints map[string]bool    // ever used
	registers int
	changed   chan struct{}
}

// plugin is one registered server.
type plugin struct {
	endpoint string
	conn     *grpc.ClientConn
	cancel   context.CancelFunc
	devices  []*pluginapi.Device
	alive    bool
	history  [][]*pluginapi.Device
}

// Start makes a kubelet directory and a kubelet in it. The directory is short: socket paths are limited to 107 bytes.
func Start(t testing.TB) *Kubelet {
	t.Helper()
	dir, err := os.MkdirTemp("", "kubelet")
	if err != nil {
		t.Fatal(err)
	}
	k := &Kubelet{t: t, Dir: dir, plugins: map[string]*plugin{}, endpoints: map[string]bool{}, changed: make(chan struct{})}
	t.Cleanup(func() {
		k.Stop()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	k.Boot()
	return k
}

func (k *Kubelet) plugindir() string { return filepath.Join(k.Dir, "device-plugins") }

// Boot starts the kubelet, which removes every socket in its directory first.
func (k *Kubelet) Boot() {
	k.t.Helper()
	if err := os.MkdirAll(k.plugindir(), 0o755); err != nil {
		k.t.Fatal(err)
	}
	k.Wipe()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(k.plugindir(), "kubelet.sock")})
	if err != nil {
		k.t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false) // or a server that closes late removes the socket of its successor
	server := grpc.NewServer()
	pluginapi.RegisterRegistrationServer(server, &registration{Kubelet: k})
	k.mu.Lock()
	k.server = server
	k.mu.Unlock()
	go func() { _ = server.Serve(listener) }() // ends with Stop
}

// Wipe removes every socket in the directory.
func (k *Kubelet) Wipe() {
	k.t.Helper()
	entries, err := os.ReadDir(k.plugindir())
	if err != nil {
		k.t.Fatal(err)
	}
	for _, e := range entries {
		if e.Type()&os.ModeSocket != 0 {
			if err := os.Remove(filepath.Join(k.plugindir(), e.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
				k.t.Fatal(err)
			}
		}
	}
}

// Stop ends the kubelet and with it every stream.
func (k *Kubelet) Stop() {
	k.mu.Lock()
	server := k.server
	k.server = nil
	plugins := k.plugins
	k.plugins = map[string]*plugin{}
	k.mu.Unlock()
	if server != nil {
		server.Stop()
	}
	for _, p := range plugins {
		p.cancel()
		p.conn.Close()
	}
}

// Cut ends the stream of one resource from the kubelet's side, as a reset connection does.
func (k *Kubelet) Cut(resource string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.plugins[resource]; p != nil {
		p.cancel()
		p.conn.Close()
	}
}

type registration struct {
	pluginapi.UnimplementedRegistrationServer
	*Kubelet
}

// Register is strict: a name that was used before is an error, and so is a second registration beside an open stream.
func (r *registration) Register(_ context.Context, q *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	k := r.Kubelet
	k.mu.Lock()
	defer k.mu.Unlock()
	k.registers++
	if q.GetVersion() != pluginapi.Version {
		return nil, fmt.Errorf("version %s", q.GetVersion())
	}
	if k.endpoints[q.GetEndpoint()] {
		k.t.Errorf("endpoint %s of %s was used before", q.GetEndpoint(), q.GetResourceName())
		return nil, errors.New("device plugin already connected")
	}
	if p := k.plugins[q.GetResourceName()]; p != nil && p.alive {
		k.t.Errorf("%s registers while its stream is open", q.GetResourceName())
		return nil, errors.New("device plugin already connected")
	}
	k.endpoints[q.GetEndpoint()] = true
	p, err := k.connect(q.GetEndpoint())
	if err != nil {
		return nil, err
	}
	if old := k.plugins[q.GetResourceName()]; old != nil {
		old.cancel()
	}
	k.plugins[q.GetResourceName()] = p
	return &pluginapi.Empty{}, nil
}

// connect dials back and follows the list.
func (k *Kubelet) connect(endpoint string) (*plugin, error) {
	path := filepath.Join(k.plugindir(), endpoint)
	conn, err := grpc.NewClient("passthrough:///"+path, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(k.t.Context()))
	p := &plugin{endpoint: endpoint, conn: conn, cancel: cancel, alive: true}
	go k.follow(ctx, p)
	return p, nil
}

func (k *Kubelet) follow(ctx context.Context, p *plugin) {
	stream, err := pluginapi.NewDevicePluginClient(p.conn).ListAndWatch(ctx, &pluginapi.Empty{})
	for err == nil {
		var list *pluginapi.ListAndWatchResponse
		if list, err = stream.Recv(); err == nil {
			k.note(func() {
				p.devices = list.GetDevices()
				p.history = append(p.history, list.GetDevices())
			})
		}
	}
	k.note(func() { p.alive, p.devices = false, nil })
}

// note changes what is known and wakes up who waits.
func (k *Kubelet) note(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
	close(k.changed)
	k.changed = make(chan struct{})
}

// Devices returns the list of a resource; nil without a live stream.
func (k *Kubelet) Devices(resource string) []*pluginapi.Device {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.plugins[resource]; p != nil && p.alive {
		return slices.Clone(p.devices)
	}
	return nil
}

// Connected says that the kubelet holds a stream to the server of a resource.
func (k *Kubelet) Connected(resource string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.plugins[resource]
	return p != nil && p.alive
}

// Registers counts registrations.
func (k *Kubelet) Registers() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.registers
}

// Healthy counts the healthy devices of a resource.
func (k *Kubelet) Healthy(resource string) int {
	n := 0
	for _, d := range k.Devices(resource) {
		if d.GetHealth() == pluginapi.Healthy {
			n++
		}
	}
	return n
}

// Wait waits until the condition holds and logs how long it took.
func (k *Kubelet) Wait(what string, limit time.Duration, done func() bool) {
	k.t.Helper()
	start, tick := time.Now(), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for !done() {
		if time.Since(start) > limit {
			k.t.Fatalf("%s: not within %v", what, limit)
		}
		<-tick.C
	}
	k.t.Logf("%s after %v", what, time.Since(start).Round(time.Millisecond))
}

// Client talks to the server of a resource as the kubelet would.
func (k *Kubelet) Client(resource string) pluginapi.DevicePluginClient {
	k.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.plugins[resource]
	if p == nil {
		k.t.Fatalf("%s is not registered", resource)
	}
	return pluginapi.NewDevicePluginClient(p.conn)
}

// Allocate asks for devices for one container.
func (k *Kubelet) Allocate(resource string, ids ...string) (*pluginapi.ContainerAllocateResponse, error) {
	k.t.Helper()
	answer, err := k.Client(resource).Allocate(k.t.Context(), &pluginapi.AllocateRequest{
		ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: ids}},
	})
	if err != nil {
		return nil, err
	}
	return answer.GetContainerResponses()[0], nil
}
