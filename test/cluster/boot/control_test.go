// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package boot

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"gpuslice/test/cluster/node"
)

// fakeBoard knows one program and refuses what a real one would.
type fakeBoard struct {
	running bool
	calls   []string
}

func (b *fakeBoard) start(name string) error { return b.turn("start", name, true) }

func (b *fakeBoard) stop(_ context.Context, name string) error { return b.turn("stop", name, false) }

func (b *fakeBoard) turn(verb, name string, on bool) error {
	b.calls = append(b.calls, verb+" "+name)
	if name != "kubelet" || b.running == on {
		return errors.New("refused: " + name)
	}
	b.running = on
	return nil
}

// Both ends of the control socket: the node's programs and a test's view of them.
func TestControl(t *testing.T) {
	board, group, dir := new(fakeBoard), new(errgroup.Group), node.Dir(t.TempDir())
	end, err := serveControl(group, dir, board)
	if err != nil {
		t.Fatal(err)
	}
	n := &node.Node{Dir: dir}
	if err := errors.Join(n.Start(t.Context(), "kubelet"), n.Stop(t.Context(), "kubelet")); err != nil {
		t.Error(err)
	}
	if err := n.Stop(t.Context(), "kubelet"); err == nil || err.Error() != "stop kubelet: refused: kubelet" {
		t.Errorf("the reason of a refusal is lost: %v", err)
	}
	if err := n.Start(t.Context(), "a b&c"); err == nil || err.Error() != "start a b&c: refused: a b&c" {
		t.Errorf("an odd name: %v", err)
	}
	want := []string{"start kubelet", "stop kubelet", "stop kubelet", "start a b&c"}
	if diff := cmp.Diff(want, board.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if err := errors.Join(end(), group.Wait()); err != nil {
		t.Errorf("an asked end failed the group: %v", err)
	}
	if err := n.Start(t.Context(), "kubelet"); err == nil {
		t.Error("a node that is down answered")
	}
}
