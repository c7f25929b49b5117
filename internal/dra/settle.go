// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package dra

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/klog/v2"

	"gpuslice/internal/agent"
	"gpuslice/internal/state"
)

// settle brings specs and intents together after a start: a spec of ours without intent is what a crash left and goes, an
// intent without spec gets it again. The error says for whom that is still to do, such as a claim whose GPU is away.
func (d *Driver) settle(ctx context.Context, v *agent.View) error {
	found, err := d.specs.Claims()
	if err != nil {
		return fmt.Errorf("list CDI specs of claims: %w", err)
	}
	claims, errs := d.agent.Claims(), []error{}
	for _, uid := range found {
		if _, wanted := claims[uid]; !wanted {
			errs = append(errs, d.sweep(ctx, v, uid))
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(claims)) {
		if !slices.Contains(found, uid) {
			errs = append(errs, d.restore(v, claims[uid]))
		}
	}
	return errors.Join(errs...)
}

// sweep removes a spec that no claim needs. While some intent could not be read, no spec is known to be such a one.
func (d *Driver) sweep(ctx context.Context, v *agent.View, uid string) error {
	defer d.turns.take(uid)()
	if _, wanted := d.agent.Claims()[uid]; wanted {
		return nil
	}
	unread := func(p agent.Problem) bool { return p.Reason == agent.ReasonStateUnreadable }
	if i := slices.IndexFunc(v.Problems, unread); i >= 0 {
		klog.FromContext(ctx).Info("CDI spec without intent stays", "uid", uid, "cause", v.Problems[i].Message)
		return nil
	}
	klog.FromContext(ctx).Info("CDI spec without intent removed", "uid", uid)
	return d.specs.RemoveClaim(uid)
}

// restore writes the spec of a claim that lost it, if its devices are what they were.
func (d *Driver) restore(v *agent.View, c state.Claim) error {
	defer d.turns.take(c.UID)()
	if _, wanted := d.agent.Claims()[c.UID]; !wanted {
		return nil
	}
	held := make([]agent.Device, len(c.Devices))
	for i, want := range c.Devices {
		have, ok := v.Device(want.Name)
		if !ok || have.GPU.UUID != want.GPU {
			return fmt.Errorf("claim %s: device %s of GPU %s is not there", c, want.Name, want.GPU)
		}
		held[i] = have
	}
	if err := d.writeSpec(c.UID, held); err != nil {
		return fmt.Errorf("claim %s: %w", c, err)
	}
	return nil
}
