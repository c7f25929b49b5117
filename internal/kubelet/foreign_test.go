// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package kubelet_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gpuslice/internal/kubelet"
)

// K06: another product is seen by the sockets on which it serves; what a dead one left, and our own, are none of it.
func TestForeignSockets(t *testing.T) {
	dir, err := os.MkdirTemp("", "k") // socket paths are limited to 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "device-plugins"), 0o700), os.Mkdir(filepath.Join(dir, "plugins_registry"), 0o700)); err != nil {
		t.Fatal(err)
	}
	listen := func(name string) net.Listener {
		l, err := net.Listen("unix", filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	dead, ok := listen("device-plugins/nvidia-mig-1g.10gb.sock").(*net.UnixListener)
	if !ok {
		t.Fatal("no unix listener")
	}
	dead.SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	listen("device-plugins/gpuslice-12345678-abcdef01.sock")
	listen("device-plugins/kubelet.sock")
	for _, tt := range []struct {
		name, socket string
		find         func(context.Context, string) ([]string, error)
	}{
		{"device plugin", "device-plugins/nvidia-gpu.sock", kubelet.DevicePlugins},
		{"DRA driver", "plugins_registry/gpu.nvidia.com-reg.sock", kubelet.DRADrivers},
	} {
		if found, err := tt.find(t.Context(), dir); err != nil || len(found) > 0 {
			t.Errorf("%s: found %v, %v before it serves", tt.name, found, err)
		}
		listen(tt.socket)
		found, err := tt.find(t.Context(), dir)
		if want := []string{filepath.Join(dir, tt.socket)}; err != nil || !slices.Equal(found, want) {
			t.Errorf("%s: found %v, %v; want %v", tt.name, found, err, want)
		}
	}
}
