// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package dra

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"gpuslice/internal/agent"
)

// repeatAfter is when slices are published once more after a registration: a kubelet that starts deletes those of its node,
// and what the library knows of them may be older than that.
const repeatAfter = 3 * time.Second

// publisher keeps the API server's slices like the view for the life of one registration.
type publisher struct {
	*Driver
	helper    *kubeletplugin.Helper
	published []resourceslice.Slice // nil: publish again, whatever it was
	settled   bool                  // specs and intents agree
	said      string                // why they do not, as logged last
}

// follow publishes every change of the view. Before the first view, and while nobody knows which GPUs there are, nothing is
// published, so what stands stays (P6).
func (p *publisher) follow(ctx context.Context) error {
	repeat := time.NewTimer(repeatAfter)
	defer repeat.Stop()
	for {
		view, changed := p.agent.View()
		if view != nil && !view.Unseen {
			if err := p.offer(ctx, view); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-p.again:
			p.published = nil
			repeat.Reset(repeatAfter)
		case <-repeat.C:
			p.published = nil
		}
	}
}

// offer settles what a restart left, then publishes if something differs.
func (p *publisher) offer(ctx context.Context, v *agent.View) error {
	if !p.settled {
		err := p.settle(ctx, v)
		p.settled = err == nil
		if err != nil && err.Error() != p.said {
			p.said = err.Error()
			klog.FromContext(ctx).Error(err, "CDI specs of claims differ from intents; trying again")
		}
	}
	list := p.slices(v)
	if p.published != nil && equality.Semantic.DeepEqual(p.published, list) {
		return nil
	}
	n := 0
	for _, s := range list {
		n += len(s.Devices)
	}
	klog.FromContext(ctx).Info("Publishing", "slices", len(list), "devices", n)
	pools := map[string]resourceslice.Pool{p.opts.NodeName: Pool(list)}
	// The first call waits for the API server, until the library is stopped.
	if err := p.helper.PublishResources(ctx, resourceslice.DriverResources{Pools: pools}); err != nil && ctx.Err() == nil {
		return fmt.Errorf("publish ResourceSlices: %w", err)
	}
	p.published = list
	return nil
}

// slices leaves out what this cluster cannot say.
func (d *Driver) slices(v *agent.View) []resourceslice.Slice {
	list := Slices(v, d.opts.Roots)
	if !d.taintless.Load() {
		return list
	}
	held := map[string]bool{}
	for _, c := range d.agent.Claims() {
		for _, x := range c.Devices {
			held[x.Name] = true
		}
	}
	return withoutTaints(list, held)
}
