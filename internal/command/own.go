// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"gpuslice/internal/agent"
	"gpuslice/internal/kubelet"
	"gpuslice/internal/state"
)

// awaitAlone waits until no other product offers the node's GPUs through an API that this agent serves (P1).
func (p *process) awaitAlone(ctx context.Context) error {
	others := map[agent.API]func(context.Context, string) ([]string, error){
		agent.DevicePlugin: kubelet.DevicePlugins, agent.DRA: kubelet.DRADrivers,
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for said := ""; ; {
		found := []string{}
		for _, api := range p.flags.APIs {
			sockets, err := others[api](ctx, p.flags.KubeletDir)
			if err != nil {
				return err
			}
			found = append(found, sockets...)
		}
		if len(found) == 0 {
			return nil
		}
		why := "another product serves GPUs on this node: " + strings.Join(found, ", ")
		if p.waitFor(why); said != why {
			said = why
			klog.FromContext(ctx).Info("Waiting for the node", "cause", why)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// acquire waits for the lock; a second agent stays up, not ready, and names the holder.
func (p *process) acquire(ctx context.Context) (*state.Lock, error) {
	self := fmt.Sprintf("%s pid %d since %s", p.flags.binary, os.Getpid(), time.Now().UTC().Format(time.RFC3339))
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	said := ""
	for {
		lock, err := state.Acquire(p.flags.StateDir, self)
		if err == nil {
			return lock, nil
		}
		if !errors.Is(err, state.ErrLocked) {
			return nil, err
		}
		if p.waitFor(err.Error()); said != err.Error() {
			said = err.Error()
			klog.FromContext(ctx).Info("Waiting for the node", "cause", said)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}
