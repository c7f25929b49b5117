// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"gpuslice/test/cluster/node"
)

// proxy stands between plugins and the kubelet: it takes registrations, and gives the kubelet sockets of its own that pass
// every byte on, so that it can cut what the two believe to be one connection.
type proxy struct {
	pluginapi.UnimplementedRegistrationServer

	t       *testing.T
	kubelet pluginapi.RegistrationClient

	mu    sync.Mutex
	conns []net.Conn
	taken int // registrations
}

// interpose puts a proxy in the kubelet's place until the test ends.
func interpose(t *testing.T) *proxy {
	t.Helper()
	public, moved := filepath.Join(node.DevicePluginDir, "kubelet.sock"), filepath.Join(node.DevicePluginDir, "kubelet-real.sock")
	if err := os.Rename(public, moved); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", public)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("passthrough:///"+moved, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, kubelet: pluginapi.NewRegistrationClient(conn)}
	server := grpc.NewServer()
	pluginapi.RegisterRegistrationServer(server, p)
	go func() { _ = server.Serve(listener) }() // ends with Stop
	t.Cleanup(func() {
		server.Stop()
		conn.Close()
		if err := os.Rename(moved, public); err != nil {
			t.Error(err)
		}
	})
	return p
}

// Register passes a registration on under the name of a socket of the proxy's own.
func (p *proxy) Register(ctx context.Context, r *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	p.mu.Lock()
	p.taken++
	endpoint := fmt.Sprintf("proxy-%d.sock", p.taken)
	p.mu.Unlock()
	listener, err := net.Listen("unix", filepath.Join(node.DevicePluginDir, endpoint))
	if err != nil {
		return nil, err
	}
	p.t.Cleanup(func() { listener.Close() })
	go p.pass(listener, filepath.Join(node.DevicePluginDir, r.GetEndpoint()))
	return p.kubelet.Register(ctx, &pluginapi.RegisterRequest{
		Version: r.GetVersion(), Endpoint: endpoint, ResourceName: r.GetResourceName(), Options: r.GetOptions(),
	})
}

func (p *proxy) pass(listener net.Listener, target string) {
	for {
		in, err := listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("unix", target)
		if err != nil {
			in.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, in, out)
		p.mu.Unlock()
		for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
			go func() {
				_, _ = io.Copy(way[0], way[1]) // ends when either side does
				way[0].Close()
			}()
		}
	}
}

// reset cuts every connection that passes through.
func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

func (p *proxy) registrations() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}
