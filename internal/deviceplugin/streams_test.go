// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package deviceplugin

import (
	"context"
	"sync"
	"testing"

	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// silent is a stream of the kubelet that takes everything.
type silent struct {
	grpc.ServerStream
	ctx context.Context
}

func (s silent) Context() context.Context                   { return s.ctx }
func (s silent) Send(*pluginapi.ListAndWatchResponse) error { return nil }

// K01: a stream that opens while one looks is not taken for one that came and went, after which the plugin would register
// again beside an open stream. While streams only open, as many are open as ever were, at every moment.
func TestStreamThatOpensBetweenTwoReads(t *testing.T) {
	const streams = 2000
	s := newServer("nvidia.com/gpu", nil, t.TempDir(), "cdi")
	s.update([]*pluginapi.Device{{ID: "GPU-1"}})
	ctx, end := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		for range streams {
			group.Go(func() { _ = (&incarnation{server: s, life: ctx}).ListAndWatch(nil, silent{ctx: ctx}) }) // it ends with ctx
		}
	})
	looks := 0
	for open := 0; open < streams; looks++ {
		var ever uint64
		if open, ever = s.streamCounts(); uint64(open) != ever {
			t.Fatalf("%d streams are open, %d ever were, and none has ended", open, ever)
		}
	}
	end()
	group.Wait()
	if open, ever := s.streamCounts(); open != 0 || ever != streams {
		t.Errorf("at the end %d of %d streams are open", open, ever)
	}
	t.Logf("%d looks", looks)
}
