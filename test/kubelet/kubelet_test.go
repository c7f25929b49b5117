// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package kubelet_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"gpuslice/test/kubelet"
)

// plugin sends one list and keeps the stream open.
type plugin struct {
	pluginapi.UnimplementedDevicePluginServer
	list []*pluginapi.Device
}

func (p *plugin) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	if err := stream.Send(&pluginapi.ListAndWatchResponse{Devices: p.list}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Each breach of the protocol is complained of, and a plugin that keeps to it is not.
func TestBreaches(t *testing.T) {
	good := &pluginapi.Device{ID: "a", Health: pluginapi.Healthy}
	for _, tc := range []struct {
		why       string
		list      []*pluginapi.Device
		endpoints []string // it registers under, one after the other
		want      string
	}{
		{"one that keeps to it", []*pluginapi.Device{good}, []string{"p.sock"}, ""},
		{"a name that was used", []*pluginapi.Device{good}, []string{"p.sock", "p.sock"}, "endpoint p.sock of x/y was used before"},
		{"a second registration beside the stream", []*pluginapi.Device{good}, []string{"p.sock", "q.sock"}, "x/y registers while its stream is open"},
		{"a device that is there twice", []*pluginapi.Device{good, good}, []string{"p.sock"}, `list of x/y: id "a" is empty or there twice`},
		{"a device without a name", []*pluginapi.Device{{Health: pluginapi.Healthy}}, []string{"p.sock"}, `list of x/y: id "" is empty or there twice`},
		{"a health that is none", []*pluginapi.Device{{ID: "a", Health: "ill"}}, []string{"p.sock"}, `list of x/y: health of a is "ill"`},
	} {
		t.Run(tc.why, func(t *testing.T) {
			complaints := make(chan error, 10)
			dir, err := os.MkdirTemp("", "k") // socket paths are limited to 107 bytes
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			k := kubelet.New(dir, func(err error) { complaints <- err })
			if err := k.Boot(); err != nil {
				t.Fatal(err)
			}
			defer k.Stop()
			for i, endpoint := range tc.endpoints {
				serve(t, filepath.Join(dir, "device-plugins", endpoint), tc.list, i == 0)
				err := register(t, dir, endpoint)
				if (err == nil) != (i == 0) {
					t.Fatalf("registration %d: %v", i, err)
				}
				if err := k.Until(t.Context(), func() bool { _, lists := k.Stream("x/y"); return len(lists) == 1 }); err != nil {
					t.Fatal(err)
				}
			}
			got := []string{}
			for len(complaints) > 0 {
				got = append(got, (<-complaints).Error())
			}
			if strings.Join(got, "; ") != tc.want {
				t.Errorf("complaints are %q, want %q", got, tc.want)
			}
		})
	}
}

func serve(t *testing.T, path string, list []*pluginapi.Device, first bool) {
	t.Helper()
	if _, err := os.Stat(path); !first && err == nil {
		return // it is served already
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(server, &plugin{list: list})
	go func() { _ = server.Serve(listener) }() // ends with the test
	t.Cleanup(server.Stop)
}

func register(t *testing.T, dir, endpoint string) error {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+filepath.Join(dir, "device-plugins/kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = pluginapi.NewRegistrationClient(conn).Register(t.Context(), &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: endpoint, ResourceName: "x/y",
	})
	return err
}
