// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package kubelet

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"time"
)

// dialLimit bounds one look at a socket; somebody who listens takes connections at once.
const dialLimit = time.Second

// DevicePlugins names the sockets on which NVIDIA's device plugin serves; those that a dead one left behind are none.
func DevicePlugins(ctx context.Context, kubeletDir string) ([]string, error) {
	return served(ctx, filepath.Join(kubeletDir, "device-plugins", "nvidia-*.sock"))
}

// DRADrivers names the sockets on which a driver called gpu.nvidia.com is registered. Our own has the same name, so it is asked
// before our own is there.
func DRADrivers(ctx context.Context, kubeletDir string) ([]string, error) {
	return served(ctx, filepath.Join(kubeletDir, "plugins_registry", "gpu.nvidia.com*-reg.sock"))
}

func served(ctx context.Context, pattern string) ([]string, error) {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("list sockets: %w", err)
	}
	live := []string{}
	for _, path := range paths {
		if answers(ctx, path) {
			live = append(live, path)
		}
	}
	return live, nil
}

func answers(ctx context.Context, socket string) bool {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was asked
	return true
}
