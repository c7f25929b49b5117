// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"gpuslice/internal/agent"
	"gpuslice/internal/beat"
	"gpuslice/internal/daemon"
	"gpuslice/internal/deviceplugin"
	"gpuslice/internal/dra"
	"gpuslice/internal/kubelet"
	"gpuslice/internal/limits"
	"gpuslice/internal/report"
	"gpuslice/internal/source"
	"gpuslice/internal/state"
	"gpuslice/internal/usage"
	"gpuslice/pkg/cdi"
	"gpuslice/pkg/devices"
)

// RunCommand is the agent.
func RunCommand() Command {
	return Command{Name: "run", Summary: "run the agent", Run: run}
}

func run(ctx context.Context, f *Flags, s Streams) int {
	ctx = daemon.WithLogger(ctx, s.Err, f.LogFormat, f.Verbosity)
	ctx, stop := daemon.WithSignals(ctx)
	defer stop()
	if err := f.mayRun(); err != nil {
		return fail(s, f, "run", err)
	}
	if err := (&process{flags: f}).run(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Ended")
		return failed
	}
	return ok
}

// mayRun refuses simulated hardware on a real node's directories.
func (f *Flags) mayRun() error {
	if !strings.HasPrefix(f.Hardware, "sim:") {
		return nil
	}
	for _, name := range []string{"kubelet-dir", "cdi-dir", "state-dir"} {
		if !f.set[name] {
			return fmt.Errorf("--hardware=%s needs --kubelet-dir, --cdi-dir and --state-dir, so that no real node is told of simulated GPUs", f.Hardware)
		}
	}
	return nil
}

// process is a running agent. It is ready when what it serves is taken, and says why when it is not.
type process struct {
	flags      *Flags
	waiting    atomic.Pointer[string] // why nothing is served yet
	agent      atomic.Pointer[agent.Agent]
	limitHook  cdi.Hook // runs before containers whose memory is bounded
	registered []func() bool
}

func (p *process) run(ctx context.Context) error {
	p.waitFor("starting")
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return daemon.Serve(ctx, p.flags.Listen, daemon.Endpoints{Ready: p.ready, Status: p.status, Metrics: usage.Handler(usage.NewHealth(p))})
	})
	group.Go(func() error { return p.own(ctx) })
	err := group.Wait()
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil
	}
	return err
}

func (p *process) waitFor(what string) { p.waiting.Store(&what) }

func (p *process) ready() error {
	if why := p.waiting.Load(); why != nil {
		return errors.New(*why)
	}
	a := p.agent.Load()
	if waiting := a.Waiting(); waiting != "" {
		return errors.New(waiting)
	}
	if view, _ := a.View(); view == nil {
		return errors.New("the layout of this node is not verified yet")
	}
	for _, registered := range p.registered {
		if !registered() {
			return errors.New("the kubelet has not taken every registration yet")
		}
	}
	return nil
}

// View implements usage.Agent; there is none before this process is the agent of the node.
func (p *process) View() (*agent.View, <-chan struct{}) {
	if a := p.agent.Load(); a != nil {
		return a.View()
	}
	return nil, nil
}

func (p *process) status() any {
	a := p.agent.Load()
	if a == nil {
		s := emptyStatus()
		if why := p.waiting.Load(); why != nil {
			s.Problems = append(s.Problems, agent.Problem{Reason: reasonWaiting, Message: *why})
		}
		return s
	}
	return statusOf(a)
}

// own becomes the one agent of the node, then serves.
func (p *process) own(ctx context.Context) error {
	f := p.flags
	bootID, err := state.BootID(f.ProcRoot)
	if err != nil {
		return err
	}
	store, err := state.Open(f.StateDir, bootID)
	if err != nil {
		return err
	}
	lock, err := p.acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release() }() // the process ends here; the kernel would release it anyway
	if err := p.awaitAlone(ctx); err != nil {
		return err
	}
	if err := store.Clean(); err != nil {
		return err
	}
	hw, err := f.hardware()
	if err != nil {
		return err
	}
	reader, err := kubelet.NewReader(f.KubeletDir)
	if err != nil {
		return err
	}
	defer reader.Close()
	client, err := f.client()
	if err != nil {
		return err
	}
	hook, noHook := f.limitHook()
	p.limitHook = hook
	a, err := agent.New(hw, reader, store, agent.Options{
		NodeName: f.NodeName, APIs: f.APIs, Poll: f.Poll,
		AwaitConfig: f.Config != "", AwaitLabels: f.labelsFromCluster(client),
		Cgroups: f.cgroups(), NoHook: noHook, CDI: f.injection(client),
	})
	if err != nil {
		return err
	}
	if f.Strategy == "envvar" && slices.Contains(f.APIs, agent.DevicePlugin) {
		a.SetProblems("strategy", []agent.Problem{envInjection()})
	}
	return p.serve(ctx, a, hw, client)
}

// serve runs the agent, its sources and its front ends until one of them fails or ctx ends.
func (p *process) serve(ctx context.Context, a *agent.Agent, hw *devices.Hardware, client kubernetes.Interface) error {
	f := p.flags
	group, ctx := errgroup.WithContext(ctx)
	if err := p.sources(ctx, group, a, client); err != nil {
		return err
	}
	if err := p.frontEnds(ctx, group, a, client); err != nil {
		return err
	}
	p.agent.Store(a)
	p.waiting.Store(nil)
	group.Go(func() error { return a.Run(ctx) })
	group.Go(func() error { return hw.Watch(ctx, a.Report) })
	group.Go(func() error { return exitWhenExhausted(ctx, hw) })
	if client != nil && f.NodeName != "" {
		group.Go(func() error { return report.Node(ctx, client, f.NodeName, a, f.hosts()) })
		group.Go(func() error { return report.Events(ctx, client, f.NodeName, a) })
		group.Go(func() error { return report.Health(ctx, client, f.NodeName, a) })
	}
	err := group.Wait()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	closed := hw.Close(closing)
	if errors.Is(closed, devices.ErrHung) || errors.Is(closed, context.DeadlineExceeded) {
		closed = nil // what waits for events, or takes its time, ends with the process
	}
	return cmp.Or(err, closed)
}

// closeLimit is how long the end of the process waits for driver calls under way: the next agent of the node waits for it.
const closeLimit = 100 * time.Millisecond

func (f *Flags) labelsFromCluster(client kubernetes.Interface) bool {
	return client != nil && f.NodeName != "" && len(f.NodeLabels) == 0
}

func (p *process) sources(ctx context.Context, group *errgroup.Group, a *agent.Agent, client kubernetes.Interface) error {
	f := p.flags
	namespace, err := f.namespace()
	if err != nil {
		return err
	}
	if f.labelsFromCluster(client) {
		group.Go(func() error { return source.Node(ctx, client, f.NodeName, a) })
	} else if err := a.SetLabels(f.NodeLabels); err != nil {
		return err
	}
	if path, ok := strings.CutPrefix(f.Config, "file:"); ok {
		group.Go(func() error { return source.File(ctx, path, f.ApplyJitter, a) })
	}
	if name, ok := strings.CutPrefix(f.Config, "configmap:"); ok {
		namespace, name, _ := strings.Cut(name, "/")
		group.Go(func() error { return source.ConfigMap(ctx, client, namespace, name, f.ApplyJitter, a) })
	}
	group.Go(func() error { return source.Imports(ctx, client, namespace, f.ApplyJitter, a) })
	return nil
}

func (p *process) frontEnds(ctx context.Context, group *errgroup.Group, a *agent.Agent, client kubernetes.Interface) error {
	f := p.flags
	writer, err := f.specWriter()
	if err != nil {
		return err
	}
	if f.Strategy != "envvar" || slices.Contains(f.APIs, agent.DRA) {
		group.Go(func() error { return keepSpecs(ctx, writer, a) })
	}
	if slices.Contains(f.APIs, agent.DevicePlugin) {
		var specs deviceplugin.Specs = writer
		if f.Strategy == "envvar" {
			specs = nil
		}
		plugin := deviceplugin.New(a, specs, deviceplugin.Options{KubeletDir: f.KubeletDir, Strategy: f.Strategy, Hook: p.limitHook})
		p.registered = append(p.registered, plugin.Ready)
		group.Go(func() error { return plugin.Run(ctx) })
		group.Go(func() error { return limits.New(a, f.KubeletDir).Run(ctx) })
	}
	if slices.Contains(f.APIs, agent.DRA) && client != nil {
		driver := dra.New(a, writer, dra.Options{
			NodeName: f.NodeName, KubeletDir: f.KubeletDir, Client: client, Roots: f.pcieRoots(),
		})
		p.registered = append(p.registered, driver.Ready)
		group.Go(func() error { return driver.Run(ctx) })
	}
	return nil
}

// exitWhenExhausted ends a process of which so many driver calls hang, or that has loaded such an old library, that only a new one
// can help.
func exitWhenExhausted(ctx context.Context, hw *devices.Hardware) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-beat.After(5 * time.Second): // a call hangs for six times as long before it counts
			switch {
			case hw.Exhausted():
				return errors.New("too many driver calls hang; a new process is needed")
			case hw.Outdated():
				return devices.ErrOutdatedLibrary
			}
		}
	}
}
