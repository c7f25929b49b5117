// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package dra

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"

	"gpuslice/internal/agent"
	"gpuslice/pkg/cdi"
)

// turns makes calls about one claim take turns, while other claims go on. Two claims may share a turn, which costs time only.
type turns [64]sync.Mutex

func (t *turns) take(uid string) (leave func()) {
	h := fnv.New32a()
	h.Write([]byte(uid))
	m := &t[h.Sum32()%uint32(len(t))]
	m.Lock()
	return m.Unlock
}

// PrepareResourceClaims makes sure that each claim holds its devices and can have them injected. One that fails costs the
// others nothing.
func (d *Driver) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := make(map[types.UID]kubeletplugin.PrepareResult, len(claims))
	for _, c := range claims {
		logger := klog.FromContext(ctx).WithValues("claim", klog.KObj(c), "uid", c.UID)
		list, err := d.prepare(c)
		if err != nil {
			logger.Error(err, "Claim not prepared")
		} else {
			logger.Info("Claim prepared", "devices", len(list))
		}
		results[c.UID] = kubeletplugin.PrepareResult{Devices: list, Err: err}
	}
	return results, nil
}

// prepare writes the intent, then the spec. A spec that cannot be written takes back an intent that is new; one that was
// there before belongs to a container that may be running.
func (d *Driver) prepare(c *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	o, err := readClaim(c, d.opts.NodeName)
	if err != nil {
		return nil, err
	}
	defer d.turns.take(o.claim.UID)()
	_, again := d.agent.Claims()[o.claim.UID]
	held, err := d.agent.Reserve(o.claim, o.names())
	if err != nil {
		return nil, err
	}
	if err := d.writeSpec(o.claim.UID, held); err != nil {
		err = fmt.Errorf("claim %s: %w", o.claim, err)
		if !again {
			err = errors.Join(err, d.forget(o.claim.UID))
		}
		return nil, err
	}
	return o.answer(), nil
}

// writeSpec writes each device once, however many requests or shares of the claim it answers.
func (d *Driver) writeSpec(uid string, held []agent.Device) error {
	list := []cdi.Device{}
	for i, h := range held {
		if slices.ContainsFunc(held[:i], func(x agent.Device) bool { return x.Name == h.Name }) {
			continue
		}
		resolved, err := d.specs.Resolve(targetOf(uid, h))
		if err != nil {
			return fmt.Errorf("device %s: %w", h.Name, err)
		}
		list = append(list, resolved)
	}
	return d.specs.WriteClaim(uid, list)
}

func targetOf(uid string, d agent.Device) cdi.Target {
	t := cdi.Target{Names: []string{cdi.ClaimDevice(uid, d.Name)}, Minor: d.GPU.Minor, GI: -1, CI: -1}
	if d.Instance != nil {
		t.GI, t.CI = d.Instance.GI, d.Instance.CI
	}
	return t
}

// UnprepareResourceClaims lets go of claims; it asks neither hardware nor API server, and an unknown claim is success.
func (d *Driver) UnprepareResourceClaims(ctx context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := make(map[types.UID]error, len(claims))
	for _, c := range claims {
		logger := klog.FromContext(ctx).WithValues("claim", c.NamespacedName, "uid", c.UID)
		err := d.unprepare(string(c.UID))
		if err != nil {
			err = fmt.Errorf("claim %s: %w", c.NamespacedName, err)
			logger.Error(err, "Claim not unprepared")
		} else {
			logger.Info("Claim unprepared")
		}
		results[c.UID] = err
	}
	return results, nil
}

func (d *Driver) unprepare(uid string) error {
	defer d.turns.take(uid)()
	return d.forget(uid)
}

// forget takes the intent away first: a spec without intent is removed at the next start, an intent without spec would get
// its spec again and keep the device. The caller has the claim's turn.
func (d *Driver) forget(uid string) error {
	if err := d.agent.Release(uid); err != nil {
		return err
	}
	return d.specs.RemoveClaim(uid)
}
