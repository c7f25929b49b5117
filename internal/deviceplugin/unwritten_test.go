// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package deviceplugin_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"gpuslice/internal/agent"
	"gpuslice/pkg/cdi"
)

// nodes are those of a node of which one can be away.
type nodes struct {
	cdi.Computed
	away atomic.Int64 // one more than its minor number; 0: none is
}

func (n *nodes) GPU(minor int) (cdi.Node, error) {
	if n.away.Load() == int64(minor)+1 {
		return cdi.Node{}, fmt.Errorf("/dev/nvidia%d: %w", minor, os.ErrNotExist)
	}
	return n.Computed.GPU(minor)
}

// P3: a device that no runtime could inject, because its spec cannot be written, is listed as unhealthy; when it can be written
// the device heals by itself.
func TestSpecThatCannotBeWritten(t *testing.T) {
	r := newRigWith(t, "2xl40s", "cdi", func(string) {})
	r.healthy("gpu", 2)
	r.Wait("a file is where the folder was, which the plugin makes again", limit, func() bool {
		return errors.Join(os.RemoveAll(r.cdiDir), os.WriteFile(r.cdiDir, nil, 0o600)) == nil
	})
	r.Wait("both are unhealthy", limit, func() bool { return len(r.Devices("nvidia.com/gpu")) == 2 && r.Healthy("nvidia.com/gpu") == 0 })
	if err := os.Remove(r.cdiDir); err != nil {
		t.Fatal(err)
	}
	r.healthy("gpu", 2)
}

// P3: a device whose node is gone is unhealthy alone, and the node says why; it heals when the node is back.
func TestNodeOfADeviceIsGone(t *testing.T) {
	r := newRigWith(t, "2xl40s", "cdi", func(string) {})
	r.healthy("gpu", 2)
	says := func() bool {
		view, _ := r.agent.View()
		return slices.ContainsFunc(view.Problems, func(p agent.Problem) bool { return p.Reason == agent.ReasonNotInjectable && p.GPU == "gpu-1" })
	}
	r.nodes.away.Store(1 + 1)
	r.agent.Kick()
	r.Wait("one is unhealthy, and it is said", limit, func() bool { return r.Healthy("nvidia.com/gpu") == 1 && says() })
	r.nodes.away.Store(0)
	r.agent.Kick()
	r.Wait("it is healthy, and nothing is said", limit, func() bool { return r.Healthy("nvidia.com/gpu") == 2 && !says() })
}
