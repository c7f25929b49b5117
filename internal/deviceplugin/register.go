// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"gpuslice/internal/beat"
)

// register tells the kubelet the socket, as soon as there is a kubelet.
func (s *server) register(ctx context.Context, endpoint string) error {
	kubelet := filepath.Join(s.dir, filepath.Base(pluginapi.KubeletSocket))
	for ctx.Err() == nil {
		if _, err := os.Stat(filepath.Join(s.dir, endpoint)); err != nil {
			return fmt.Errorf("socket before registration: %w", err)
		}
		err := s.registerOnce(ctx, kubelet, endpoint)
		if err == nil {
			klog.FromContext(ctx).Info("Registered", "endpoint", endpoint)
			return nil
		}
		klog.FromContext(ctx).V(2).Info("Kubelet does not take the registration yet", "cause", err.Error())
		wait(ctx, retryEvery)
	}
	return context.Cause(ctx)
}

func (s *server) registerOnce(ctx context.Context, kubelet, endpoint string) error {
	ctx, cancel := context.WithTimeout(ctx, streamLimit)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+kubelet,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
	if err != nil {
		return fmt.Errorf("connect %s: %w", kubelet, err)
	}
	defer conn.Close()
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, &pluginapi.RegisterRequest{
		Version:      pluginapi.Version,
		Endpoint:     endpoint,
		ResourceName: s.resource,
		Options:      options(),
	})
	return err
}

func options() *pluginapi.DevicePluginOptions {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true}
}

var (
	errSocketGone = errors.New("the socket was removed")
	errNoStream   = errors.New("the kubelet holds no stream")
)

// watch returns when the kubelet can no longer reach this name or has let go of it. It never returns while a stream is
// open and the socket is there: registering again would confuse the kubelet for good.
func (s *server) watch(ctx context.Context, path string, before uint64) error {
	registered := time.Now()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-beat.After(watchEvery):
		case <-s.ended:
		}
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
			return errSocketGone
		}
		if open, ever := s.streamCounts(); open == 0 && (ever > before || time.Since(registered) > streamLimit) {
			return errNoStream
		}
	}
}
