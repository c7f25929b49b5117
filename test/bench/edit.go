// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// edit is a config before and after, with what each must offer. Resources that offer the same must not notice.
type edit struct {
	key                   string
	before, after         string
	offersThen, offersNow offers
}

var edits = []edit{
	{
		editShares, "shares-before", "shares-after",
		offers{gpus: 4, "nvidia.com/gpu.shared": 16},
		offers{gpus: 4, "nvidia.com/gpu.shared": 32},
	},
	{
		editInstances, "instances-before", "instances-after",
		offers{gpus: 4, "nvidia.com/mig-3g.40gb": 8, "nvidia.com/mig-1g.10gb": 0},
		offers{gpus: 4, "nvidia.com/mig-3g.40gb": 4, "nvidia.com/mig-1g.10gb": 12},
	},
}

// measureEdit edits to and fro.
func (b *bench) measureEdit(ctx context.Context, e edit, latency time.Duration, f figures) error {
	if b.configs[e.before] == nil || b.configs[e.after] == nil {
		return nil // the plugin has no such config
	}
	return b.on(eight, latency, func(n *node) (err error) {
		s, err := n.begin(b.template, b.configs[e.before])
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.end()) }()
		if err := s.until(ctx, e.offersThen); err != nil {
			return err
		}
		for i := range b.repeat {
			name, want := e.after, e.offersNow
			if i%2 == 1 {
				name, want = e.before, e.offersThen
			}
			took, err := s.timeEdit(ctx, b.configs[name], want, e.undisturbed())
			if err != nil {
				return fmt.Errorf("edit to %s: %w", name, err)
			}
			f.add(e.key, took)
		}
		return nil
	})
}

// undisturbed are the resources to which the edit means nothing.
func (e edit) undisturbed() []string {
	names := []string{}
	for resource, n := range e.offersThen {
		if e.offersNow[resource] == n {
			names = append(names, resource)
		}
	}
	return names
}

// timeEdit returns the milliseconds from the edit to the list; the others must have the stream and the lists of before.
func (s *session) timeEdit(ctx context.Context, text []byte, want offers, others []string) (float64, error) {
	type stream struct {
		endpoint string
		lists    int
	}
	now := func(resource string) stream {
		endpoint, lists := s.Stream(resource)
		return stream{endpoint, len(lists)}
	}
	before := map[string]stream{}
	for _, resource := range others {
		before[resource] = now(resource)
	}
	start := time.Now()
	if err := s.configure(text); err != nil {
		return 0, err
	}
	if err := s.until(ctx, want); err != nil {
		return 0, err
	}
	took := milliseconds(time.Since(start))
	for _, resource := range others {
		if now(resource) != before[resource] {
			return 0, fmt.Errorf("%s is disturbed: stream and lists were %v, are %v", resource, before[resource], now(resource))
		}
	}
	return took, nil
}
