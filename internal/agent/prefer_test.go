// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpuslice/internal/agent"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

// prefer asks for whole GPUs by number and answers by number.
func (n *node) prefer(available, required []int, size int) string {
	n.t.Helper()
	view, _ := n.View()
	ids := func(numbers []int) (list []string) {
		for _, i := range numbers {
			list = append(list, n.uuid(i, ""))
		}
		return list
	}
	numbers := []int{}
	for _, id := range view.Prefer("nvidia.com/gpu", ids(available), ids(required), size) {
		numbers = append(numbers, slices.IndexFunc(n.machine.GPUs(), func(g sim.GPU) bool { return g.UUID == id }))
	}
	slices.Sort(numbers)
	return strings.Trim(fmt.Sprint(numbers), "[]")
}

const bridged = "gpus: [{model: l40s, count: 8}]\nlinks: {topology: bridged-pairs}\n"

func TestWholeGPUsAreChosenByTheirLinks(t *testing.T) {
	dgx1 := "gpus: [{model: l40s, count: 8}]\nlinks: {topology: dgx1-volta}\n"
	for _, tc := range []struct {
		name, machine       string
		available, required []int
		size                int
		want                string
	}{
		{"the bridged pair", bridged, []int{1, 2, 3, 4}, nil, 2, "2 3"},
		{"the one whose partner is gone", bridged, []int{0, 1, 2, 4, 5}, nil, 1, "2"},
		{"the partner of what the pod has", bridged, []int{0, 1, 2, 3, 4, 5}, []int{4}, 2, "4 5"},
		{"half a DGX-1", dgx1, []int{0, 1, 2, 3, 4, 5, 6, 7}, nil, 4, "0 1 2 3"},
		{"two links before one", dgx1, []int{0, 1, 3, 5}, nil, 2, "0 3"},
		{"a pair inside one socket of a fabric", "8xh100-sxm5-80gb", []int{1, 6, 3, 4}, nil, 2, "1 3"},
		{"a single GPU of the socket that is in use", "8xh100-sxm5-80gb", []int{0, 1, 2, 3, 6, 7}, nil, 1, "6"},
		{"as many as there are", bridged, []int{7}, nil, 3, "7"},
		{"nothing of nothing", bridged, nil, nil, 1, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := newNode(t, tc.machine)
			n.converge()
			if got := n.prefer(tc.available, tc.required, tc.size); got != tc.want {
				t.Errorf("%d of %v with %v: %s, want %s", tc.size, tc.available, tc.required, got, tc.want)
			}
		})
	}
}

// H04, P3: one GPU is off the bus; the others are chosen as before, and only it is unhealthy.
func TestPreferWithALostGPU(t *testing.T) {
	n := newNode(t, bridged)
	n.converge()
	if err := n.machine.Lose(7); err != nil {
		t.Fatal(err)
	}
	n.converge()
	n.offers("gpu=7-1")
	if got := n.prefer([]int{1, 2, 3, 4, 6}, nil, 2); got != "2 3" {
		t.Errorf("got %s", got)
	}
	if got := n.prefer([]int{2, 3, 4, 5, 6}, nil, 1); got != "6" {
		t.Errorf("got %s", got)
	}
}

// K16, P7: a driver that tells nothing of links serves all the same; so does a GPU that was never read.
func TestPreferWithoutLinks(t *testing.T) {
	n := newNode(t, bridged)
	for _, call := range []string{"CommonAncestor", "NVLinkActive"} {
		if _, err := n.machine.Fail(sim.Fault{Call: call, Code: devices.ErrNotSupported}); err != nil {
			t.Fatal(err)
		}
	}
	n.converge()
	n.offers("gpu=8")
	n.noProblems()
	if got := n.prefer([]int{3, 4, 6}, nil, 2); got != "3 4" {
		t.Errorf("got %s", got)
	}
}

// Shares and whole GPUs under one name are shares to the kubelet's question.
func TestPreferAmongWholeAndShared(t *testing.T) {
	n := newNode(t, bridged)
	n.apply(head + "layouts: {it: {timeSlicing: {replicas: 2}}}\nnodes: [{gpus: [{select: {index: [0]}, layout: it}, {layout: whole}]}]\n")
	n.offers("gpu=9")
	view, _ := n.View()
	got := view.Prefer("nvidia.com/gpu", []string{n.uuid(0, "") + "::1", n.uuid(5, "")}, nil, 1)
	if len(got) != 1 {
		t.Errorf("got %v", got)
	}
	if got := (&agent.View{}).Prefer("nvidia.com/gpu", []string{"GPU-a", "GPU-b"}, []string{"GPU-b"}, 1); !slices.Equal(got, []string{"GPU-b"}) {
		t.Errorf("before the first view: %v", got)
	}
}

// The links are weighed anew when a GPU comes.
func TestPreferAfterHotPlug(t *testing.T) {
	n := newNode(t, "2xh100-sxm5-80gb")
	n.converge()
	if _, err := n.machine.AddGPU("h100-sxm5-80gb", ""); err != nil {
		t.Fatal(err)
	}
	n.start() // a session goes on counting what it found at its start
	n.converge()
	n.offers("gpu=3")
	if got := n.prefer([]int{0, 1, 2}, nil, 2); got != "0 2" { // the new one is on the first socket
		t.Errorf("got %s", got)
	}
}

// GPUs are offered, and chosen somehow, before anything is known of their links: reading them may take as long as it likes.
func TestLinksDelayNoList(t *testing.T) {
	n := newNode(t, bridged)
	release, err := n.machine.Fail(sim.Fault{Call: "CommonAncestor", Form: sim.Hung})
	if err != nil {
		t.Fatal(err)
	}
	_, changed := n.View()
	ended := make(chan error, 1)
	go func() { ended <- n.Converge(t.Context()) }()
	<-changed
	n.offers("gpu=8")
	if view, _ := n.View(); len(view.Prefer("nvidia.com/gpu", []string{n.uuid(2, ""), n.uuid(3, "")}, nil, 1)) != 1 {
		t.Error("nothing is preferred")
	}
	select {
	case err := <-ended:
		t.Errorf("the links were not waited for: %v", err)
	default:
	}
	release()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	n.converge()
	if got := n.prefer([]int{1, 2, 3, 4}, nil, 2); got != "2 3" {
		t.Errorf("got %s", got)
	}
}

// P6: the first list does not compete with the reading of links for the driver; they are read soon after, without another cause.
func TestLinksAreReadAfterTheFirstList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, bridged)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- n.Run(ctx) }()
		synctest.Wait()
		n.offers("gpu=8")
		if read := n.machine.Calls("agent")["CommonAncestor"]; read != 0 {
			t.Errorf("%d calls about links came with the first list", read)
		}
		<-time.After(time.Second)
		synctest.Wait()
		if got := n.prefer([]int{1, 2, 3, 4}, nil, 2); got != "2 3" {
			t.Errorf("a second later %s are chosen, want the bridged pair", got)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		n.machine.Close()
	})
}
