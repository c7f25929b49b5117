// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package kubelet is the kubelet's side of the device plugin protocol, for tests and measurements: strict where the real one is
// strict, and with its faults at hand. It wipes the directory when it starts, refuses a socket name that it still holds, and
// can cut streams, go away and come back. Package kubelettest makes a test of it fail by itself.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Kubelet is one kubelet directory with a device manager in it.
type Kubelet struct {
	Dir      string
	complain func(error)

	mu        sync.Mutex
	server    *grpc.Server
	plugins   map[string]*plugin // by resource
	endpoints map[string]bool    // ever used
	registers int
	changed   chan struct{}
}

// plugin is one registered server.
type plugin struct {
	resource string
	endpoint string
	conn     *grpc.ClientConn
	cancel   context.CancelFunc
	lists    []List
	alive    bool
}

// List is what a plugin sent, and when it was here.
type List struct {
	At      time.Time
	Devices []*pluginapi.Device
}

// New makes a kubelet of a directory, which should be short: socket paths are limited to 107 bytes. Breaches of the protocol
// are told to complain, which several goroutines call.
func New(dir string, complain func(error)) *Kubelet {
	return &Kubelet{Dir: dir, complain: complain, plugins: map[string]*plugin{}, endpoints: map[string]bool{}, changed: make(chan struct{})}
}

func (k *Kubelet) plugindir() string { return filepath.Join(k.Dir, "device-plugins") }

// Boot starts the kubelet, which removes every socket in its directory first.
func (k *Kubelet) Boot() error {
	if err := os.MkdirAll(k.plugindir(), 0o755); err != nil {
		return err
	}
	if err := k.Wipe(); err != nil {
		return err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(k.plugindir(), "kubelet.sock")})
	if err != nil {
		return err
	}
	listener.SetUnlinkOnClose(false) // or a server that closes late removes the socket of its successor
	server := grpc.NewServer()
	pluginapi.RegisterRegistrationServer(server, &registration{Kubelet: k})
	k.mu.Lock()
	k.server = server
	k.mu.Unlock()
	go func() { _ = server.Serve(listener) }() // ends with Stop
	return nil
}

// Wipe removes every socket in the directory.
func (k *Kubelet) Wipe() error {
	entries, err := os.ReadDir(k.plugindir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type()&os.ModeSocket != 0 {
			if err := os.Remove(filepath.Join(k.plugindir(), e.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return nil
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
func (r *registration) Register(ctx context.Context, q *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	k := r.Kubelet
	k.mu.Lock()
	defer k.mu.Unlock()
	k.registers++
	if q.GetVersion() != pluginapi.Version {
		return nil, fmt.Errorf("version %s", q.GetVersion())
	}
	if k.endpoints[q.GetEndpoint()] {
		k.complain(fmt.Errorf("endpoint %s of %s was used before", q.GetEndpoint(), q.GetResourceName()))
		return nil, errors.New("device plugin already connected")
	}
	if p := k.plugins[q.GetResourceName()]; p != nil && p.alive {
		k.complain(fmt.Errorf("%s registers while its stream is open", q.GetResourceName()))
		return nil, errors.New("device plugin already connected")
	}
	k.endpoints[q.GetEndpoint()] = true
	p, err := k.connect(ctx, q.GetResourceName(), q.GetEndpoint())
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
func (k *Kubelet) connect(ctx context.Context, resource, endpoint string) (*plugin, error) {
	path := filepath.Join(k.plugindir(), endpoint)
	conn, err := grpc.NewClient("passthrough:///"+path, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the stream outlives the registration
	p := &plugin{resource: resource, endpoint: endpoint, conn: conn, cancel: cancel, alive: true}
	go k.follow(ctx, p)
	return p, nil
}

func (k *Kubelet) follow(ctx context.Context, p *plugin) {
	stream, err := pluginapi.NewDevicePluginClient(p.conn).ListAndWatch(ctx, &pluginapi.Empty{})
	for err == nil {
		var list *pluginapi.ListAndWatchResponse
		if list, err = stream.Recv(); err == nil {
			came := List{At: time.Now(), Devices: list.GetDevices()}
			if wrong := checkList(came.Devices); wrong != nil {
				k.complain(fmt.Errorf("list of %s: %w", p.resource, wrong))
			}
			k.note(func() { p.lists = append(p.lists, came) })
		}
	}
	k.note(func() { p.alive = false })
}

// checkList wants every device once, with a health that the kubelet knows.
func checkList(devices []*pluginapi.Device) error {
	seen := map[string]bool{}
	for _, d := range devices {
		if d.GetID() == "" || seen[d.GetID()] {
			return fmt.Errorf("id %q is empty or there twice", d.GetID())
		}
		seen[d.GetID()] = true
		if d.GetHealth() != pluginapi.Healthy && d.GetHealth() != pluginapi.Unhealthy {
			return fmt.Errorf("health of %s is %q", d.GetID(), d.GetHealth())
		}
	}
	return nil
}

// note changes what is known and wakes up who waits.
func (k *Kubelet) note(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
	close(k.changed)
	k.changed = make(chan struct{})
}
