// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"gpuslice/test/cluster/node"
)

// K06, P1: beside NVIDIA's device plugin or DRA driver the agent stays up, does not serve, and names the socket; when the other
// is gone it serves without a restart. One that comes later is said.
func TestBesideAnotherProduct(t *testing.T) {
	for _, socket := range []string{"device-plugins/nvidia-gpu.sock", "plugins_registry/gpu.nvidia.com-reg.sock"} {
		t.Run(filepath.Base(socket), func(t *testing.T) {
			s := begin(t, "1xl40s", config+"nodes: [{gpus: [{layout: whole}]}]\n")
			s.offers(map[string]int64{"nvidia.com/gpu": 1})
			s.must(s.StopAgent(t.Context()))
			other, err := net.Listen("unix", filepath.Join(node.KubeletDir, socket))
			s.must(err)
			started := make(chan error, 1)
			go func() { started <- s.StartAgent(t.Context()) }()
			s.within(soon, "the other is named", func(ctx context.Context) error {
				status, err := s.Status(ctx)
				if err == nil && !strings.Contains(fmt.Sprint(status["problems"]), socket) {
					err = fmt.Errorf("%v", status["problems"])
				}
				return err
			})
			s.must(other.Close())
			s.must(<-started)
			s.offers(map[string]int64{"nvidia.com/gpu": 1})
			if strings.HasPrefix(socket, "device-plugins/") {
				other, err = net.Listen("unix", filepath.Join(node.KubeletDir, socket))
				s.must(err)
				s.conditionSays(socket + " is served by NVIDIA's device plugin")
				s.must(other.Close())
				s.conditionSays("every GPU is offered as configured")
			}
		})
	}
}

// Two agents of ours on one node: the second stays up, is not ready, and names the first; it takes over when that is gone.
func TestSecondAgentWaits(t *testing.T) {
	s := begin(t, "1xl40s", config+"nodes: [{gpus: [{layout: whole}]}]\n")
	s.offers(map[string]int64{"nvidia.com/gpu": 1})
	first := s.PID()
	second, err := s.Second(t.Context())
	s.must(err)
	defer second.End()
	s.within(soon, "the second names the first", func(ctx context.Context) error {
		status, err := second.Status(ctx)
		if err == nil && !strings.Contains(fmt.Sprint(status["problems"]), fmt.Sprintf("pid %d", first)) {
			err = fmt.Errorf("%v", status["problems"])
		}
		return err
	})
	s.must(s.StopAgent(t.Context()))
	s.within(soon, "the second takes over", second.Ready)
	s.offers(map[string]int64{"nvidia.com/gpu": 1})
}
