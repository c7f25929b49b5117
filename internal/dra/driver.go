// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package dra

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"gpuslice/internal/agent"
	"gpuslice/internal/beat"
	"gpuslice/internal/state"
	"gpuslice/pkg/cdi"
)

const (
	// watchEvery is how often the sockets are looked at.
	watchEvery = 2 * time.Second
	// stopLimit is how long calls in flight may take when the driver stops.
	stopLimit = 20 * time.Second
	// flushTime is how long an answer may take from our hands to the kubelet's: the library ends connections abruptly and gives
	// no word of when an answer has left.
	flushTime = 250 * time.Millisecond
)

// Agent is what the protocol needs of the owner of the GPUs.
type Agent interface {
	View() (*agent.View, <-chan struct{})
	Reserve(c state.Claim, names []string) ([]agent.Device, error)
	Release(uid string) error
	Claims() map[string]state.Claim
}

// Specs writes the CDI specs of claims.
type Specs interface {
	Resolve(cdi.Target) (cdi.Device, error)
	WriteClaim(uid string, list []cdi.Device) error
	RemoveClaim(uid string) error
	Claims() ([]string, error)
}

// Options of a Driver.
type Options struct {
	NodeName   string // also the name of the pool
	KubeletDir string
	Client     kubernetes.Interface
	Roots      PCIeRoots // nil = no PCIe root is known
}

// Driver serves the kubelet and publishes slices.
type Driver struct {
	agent Agent
	specs Specs
	opts  Options
	turns turns

	calls      sync.RWMutex  // held for reading by every call of the kubelet
	lastAnswer atomic.Int64  // when the last call of the kubelet was answered, in Unix nanoseconds
	registered atomic.Bool   // the kubelet took the last registration
	taintless  atomic.Bool   // the cluster drops taints
	again      chan struct{} // capacity 1: publish again
	fatal      chan error    // capacity 1: why the driver cannot go on
}

var _ kubeletplugin.DRAPlugin = &Driver{}

// New makes a driver that does nothing before Run.
func New(a Agent, s Specs, opts Options) *Driver {
	return &Driver{agent: a, specs: s, opts: opts, again: make(chan struct{}, 1), fatal: make(chan error, 1)}
}

// Ready says that the kubelet took the registration.
func (d *Driver) Ready() bool { return d.registered.Load() }

func (d *Driver) dataDir() string { return filepath.Join(d.opts.KubeletDir, "plugins", DriverName) }

func (d *Driver) registryDir() string { return filepath.Join(d.opts.KubeletDir, "plugins_registry") }

// sockets are what the kubelet finds us by; both names are the library's defaults.
func (d *Driver) sockets() []string {
	return []string{filepath.Join(d.dataDir(), "dra.sock"), filepath.Join(d.registryDir(), DriverName+"-reg.sock")}
}

var errSocketGone = errors.New("a socket was removed")

// Run serves until ctx ends. Slices stay when it ends: whoever starts next goes on with them (P6).
func (d *Driver) Run(ctx context.Context) error {
	for _, dir := range []string{d.dataDir(), d.registryDir()} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return fmt.Errorf("directory of DRA sockets: %w", err)
		}
	}
	for {
		err := d.serve(ctx)
		if !errors.Is(err, errSocketGone) {
			return err
		}
		klog.FromContext(ctx).Info("Serving anew", "cause", err.Error())
	}
}

// serve lives as long as its sockets. The library's own end is abrupt, so ours lets calls in flight finish first.
func (d *Driver) serve(ctx context.Context) error {
	helper, err := kubeletplugin.Start(context.WithoutCancel(ctx), d,
		kubeletplugin.DriverName(DriverName),
		kubeletplugin.NodeName(d.opts.NodeName),
		kubeletplugin.KubeClient(d.opts.Client),
		kubeletplugin.PluginDataDirectoryPath(d.dataDir()),
		kubeletplugin.RegistrarDirectoryPath(d.registryDir()),
		kubeletplugin.Serialize(false),
		kubeletplugin.GRPCInterceptor(d.intercept),
	)
	if err != nil {
		return fmt.Errorf("start DRA driver: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.watch(ctx) })
	group.Go(func() error { return (&publisher{Driver: d, helper: helper}).follow(ctx) })
	group.Go(func() error {
		<-ctx.Done()
		d.stop(helper)
		return nil
	})
	return group.Wait()
}

// watch returns why this registration is of no use any more.
func (d *Driver) watch(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-d.fatal:
			return err
		case <-beat.After(watchEvery):
		}
		for _, path := range d.sockets() {
			if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("%w: %s", errSocketGone, path)
			}
		}
	}
}

func (d *Driver) stop(helper *kubeletplugin.Helper) {
	d.registered.Store(false)
	tick, limit := time.NewTicker(10*time.Millisecond), time.NewTimer(stopLimit)
	defer tick.Stop()
	defer limit.Stop()
	for !d.calls.TryLock() {
		select {
		case <-tick.C:
		case <-limit.C:
			helper.Stop()
			return
		}
	}
	d.calls.Unlock()
	flushed := time.NewTimer(time.Until(time.Unix(0, d.lastAnswer.Load()).Add(flushTime)))
	defer flushed.Stop()
	<-flushed.C
	helper.Stop()
}

// intercept sees every call of the kubelet, and learns from one of them how the registration went.
func (d *Driver) intercept(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	d.calls.RLock()
	defer func() {
		d.lastAnswer.Store(time.Now().UnixNano())
		d.calls.RUnlock()
	}()
	answer, err := handle(ctx, request)
	if status, ok := request.(*registration.RegistrationStatus); ok {
		d.registered.Store(status.GetPluginRegistered())
		if status.GetPluginRegistered() {
			d.publishAgain()
		} else {
			klog.FromContext(ctx).Error(errors.New(status.GetError()), "The kubelet refused the registration")
		}
	}
	return answer, err
}

func (d *Driver) publishAgain() {
	select {
	case d.again <- struct{}{}:
	default: // a cause is waiting already
	}
}

// HandleError is told of what goes wrong in the background. What a retry or a smaller slice cures is cured; a server that
// has ended ends the driver, with the cause.
func (d *Driver) HandleError(ctx context.Context, err error, msg string) {
	klog.FromContext(ctx).Error(err, "DRA driver", "at", msg)
	var dropped *resourceslice.DroppedFieldsError
	switch {
	case errors.As(err, &dropped):
		if slices.Contains(dropped.DisabledFeatures(), "DRADeviceTaints") && !d.taintless.Swap(true) {
			d.publishAgain()
		}
	case !errors.Is(err, kubeletplugin.ErrRecoverable):
		select {
		case d.fatal <- fmt.Errorf("%s: %w", msg, err):
		default: // one cause is enough
		}
	}
}
