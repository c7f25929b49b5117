// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"gpuslice/internal/agent"
	"gpuslice/pkg/cdi"
)

// Agent is what the protocol needs of the owner of the GPUs.
type Agent interface {
	View() (*agent.View, <-chan struct{})
	Allocate(resource string, containers [][]string) ([][]agent.Device, error)
	SetProblems(part string, problems []agent.Problem)
}

// Specs writes CDI specs; nil where devices are injected by environment.
type Specs interface {
	Resolve(cdi.Target) (cdi.Device, error)
	WriteDevicePlugin([]cdi.Device) error
}

// Options of a Plugin.
type Options struct {
	KubeletDir string
	Strategy   string // "cdi" or "envvar"
	// Hook is run when a container is made with a share whose memory is bounded; the UUID of the device is added to its arguments.
	Hook cdi.Hook
}

// Plugin serves every resource of the view.
type Plugin struct {
	agent Agent
	specs Specs
	opts  Options

	unwritten string // why the spec was not written the last time

	mu      sync.Mutex
	servers map[string]*server
}

// New makes a plugin that does nothing before Run.
func New(a Agent, s Specs, opts Options) *Plugin {
	return &Plugin{agent: a, specs: s, opts: opts, servers: map[string]*server{}}
}

func (p *Plugin) dir() string { return filepath.Join(p.opts.KubeletDir, "device-plugins") }

// Run serves until ctx ends. A resource that vanishes from the view keeps its server with an empty list: the kubelet would
// go on counting what a server that is gone had listed.
func (p *Plugin) Run(ctx context.Context) error {
	if err := p.removeStale(); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for {
			view, changed := p.agent.View()
			if view != nil {
				p.follow(ctx, group, view)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-changed:
			}
		}
	})
	return group.Wait()
}

// removeStale removes sockets that a process of ours left when it was killed; the agent lock says that none of them is in use.
func (p *Plugin) removeStale() error {
	left, err := filepath.Glob(filepath.Join(p.dir(), socketPrefix+"*.sock"))
	for _, path := range left {
		if removed := os.Remove(path); !errors.Is(removed, os.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	if err != nil {
		return fmt.Errorf("remove sockets of an earlier process: %w", err)
	}
	return nil
}

// follow writes the specs first: what is announced can be injected.
func (p *Plugin) follow(ctx context.Context, group *errgroup.Group, view *agent.View) {
	broken := p.writeSpecs(ctx, view)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, resource := range view.Resources() {
		if _, ok := p.servers[resource]; ok {
			continue
		}
		s := newServer(resource, p.agent, p.dir(), p.opts.Strategy)
		p.servers[resource] = s
		group.Go(func() error { return s.run(ctx) })
	}
	for resource, s := range p.servers {
		s.update(listOf(view.Lists[resource], broken))
	}
}

// writeSpecs returns why devices cannot be injected, by UUID; such a device is listed as unhealthy and harms no other.
func (p *Plugin) writeSpecs(ctx context.Context, view *agent.View) map[string]string {
	broken := map[string]string{}
	if p.specs == nil {
		return broken
	}
	logger := klog.FromContext(ctx)
	list, problems := []cdi.Device{}, []agent.Problem{}
	for _, d := range view.Devices {
		if d.API != agent.DevicePlugin {
			continue
		}
		resolved, err := p.specs.Resolve(p.targetOf(d))
		if err != nil {
			broken[d.UUID] = err.Error()
			if d.Fault == "" { // otherwise it is unhealthy anyway, for a better reason
				problems = append(problems, agent.Problem{
					GPU: d.GPU.Name(), Reason: agent.ReasonNotInjectable, Message: fmt.Sprintf("%s is listed as unhealthy: %v", d.Name, err),
				})
			}
			continue
		}
		list = append(list, resolved)
	}
	p.agent.SetProblems("device-plugin", problems)
	err := p.specs.WriteDevicePlugin(list)
	if err == nil {
		p.unwritten = ""
	} else {
		if p.unwritten != err.Error() {
			p.unwritten = err.Error()
			logger.Error(err, "CDI spec not written; no device can be injected")
		}
		for _, d := range view.Devices {
			broken[d.UUID] = err.Error()
		}
	}
	return broken
}

func (p *Plugin) targetOf(d agent.Device) cdi.Target {
	t := cdi.Target{Names: []string{d.UUID}, Minor: d.GPU.Minor, GI: -1, CI: -1}
	index := strconv.Itoa(d.GPU.Index) // as NVIDIA's tools number them
	if d.Instance != nil {
		t.GI, t.CI = d.Instance.GI, d.Instance.CI
		index += ":" + strconv.Itoa(d.Instance.Index)
	}
	if d.Fault == "" { // of what does not answer the last index may be another's by now
		t.Names = append(t.Names, index)
	}
	if d.ShareMemory > 0 {
		t.Hooks = []cdi.Hook{{Path: p.opts.Hook.Path, Args: append(slices.Clone(p.opts.Hook.Args), d.UUID)}}
	}
	return t
}

// Ready says that the kubelet holds a stream to every server; with no resource there is nothing to hold.
func (p *Plugin) Ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.servers {
		if open, _ := s.streamCounts(); open == 0 {
			return false
		}
	}
	return true
}
