// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package deviceplugin

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"gpuslice/internal/agent"
	"gpuslice/pkg/cdi"
)

// incarnation is a server under one socket name; its streams end with the name.
type incarnation struct {
	*server
	life context.Context //nolint:containedctx // it is the life of the socket, which gRPC gives its handlers no other way
}

// GetDevicePluginOptions is asked when the kubelet connects.
func (i *incarnation) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return options(), nil
}

// ListAndWatch sends the list and every change of it.
func (i *incarnation) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	i.mu.Lock()
	i.streams++
	i.opened++
	i.mu.Unlock()
	defer func() {
		i.mu.Lock()
		i.streams--
		i.mu.Unlock()
		select {
		case i.ended <- struct{}{}:
		default: // the watch is about to look anyway
		}
	}()
	var sent []*pluginapi.Device
	for first := true; ; first = false {
		list, changed := i.current()
		if first || !equal(sent, list) {
			if err := stream.Send(&pluginapi.ListAndWatchResponse{Devices: list}); err != nil {
				return err
			}
			sent = list
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		case <-i.life.Done():
			return nil
		}
	}
}

// Allocate answers from memory.
func (i *incarnation) Allocate(_ context.Context, r *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	containers := make([][]string, len(r.GetContainerRequests()))
	for k, c := range r.GetContainerRequests() {
		containers[k] = c.GetDevicesIds()
	}
	given, err := i.agent.Allocate(i.resource, containers)
	if errors.Is(err, agent.ErrNotOffered) {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	answer := &pluginapi.AllocateResponse{}
	for _, devices := range given {
		answer.ContainerResponses = append(answer.ContainerResponses, respond(i.strategy, devices))
	}
	return answer, nil
}

// respond tells the runtime which devices a container gets. It is a pure function.
func respond(strategy string, devices []agent.Device) *pluginapi.ContainerAllocateResponse {
	response := &pluginapi.ContainerAllocateResponse{}
	uuids := make([]string, len(devices))
	for i, d := range devices {
		uuids[i] = d.UUID
		if strategy != "envvar" {
			response.CdiDevices = append(response.CdiDevices, &pluginapi.CDIDevice{Name: cdi.Qualified(cdi.DevicePluginKind, d.UUID)})
		}
	}
	if strategy == "envvar" {
		response.Envs = map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(uuids, ",")}
	}
	return response
}

// GetPreferredAllocation answers from memory and never fails a legal request.
func (i *incarnation) GetPreferredAllocation(_ context.Context, r *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	view, _ := i.agent.View()
	if view == nil {
		view = &agent.View{}
	}
	answer := &pluginapi.PreferredAllocationResponse{}
	for _, c := range r.GetContainerRequests() {
		ids := view.Prefer(i.resource, c.GetAvailableDeviceIDs(), c.GetMustIncludeDeviceIDs(), int(c.GetAllocationSize()))
		answer.ContainerResponses = append(answer.ContainerResponses, &pluginapi.ContainerPreferredAllocationResponse{DeviceIDs: ids})
	}
	return answer, nil
}

// PreStartContainer is never asked for: the options say so.
func (i *incarnation) PreStartContainer(context.Context, *pluginapi.PreStartContainerRequest) (*pluginapi.PreStartContainerResponse, error) {
	return &pluginapi.PreStartContainerResponse{}, nil
}

// logUnary writes one line per call, with an id that the lines of one call share.
func logUnary(parent context.Context) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		logger := klog.FromContext(parent).WithValues("request", requestID())
		started := time.Now()
		answer, err := handle(klog.NewContext(ctx, logger), request)
		if err != nil {
			logger.Error(err, "Call failed", "method", info.FullMethod, "asked", request)
		} else {
			logger.V(4).Info("Call answered", "method", info.FullMethod, "took", time.Since(started))
		}
		return answer, err
	}
}
