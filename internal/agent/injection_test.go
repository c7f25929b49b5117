// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpuslice/internal/agent"
	"gpuslice/internal/kubelet"
)

// sights says what is seen of containers, by "namespace/pod/container", and counts who looks.
type sights struct {
	t     *testing.T
	seen  map[string]agent.Sight
	looks []string
}

func (s *sights) Look(_ context.Context, namespace, pod, container string, minors []int) (agent.Sight, error) {
	name := namespace + "/" + pod + "/" + container
	s.looks = append(s.looks, fmt.Sprint(name, minors))
	sight, ok := s.seen[name]
	if !ok {
		return agent.Sight{}, errors.New("it has ended")
	}
	return sight, nil
}

func (n *node) problemsOf(reasons ...agent.Reason) []string {
	n.t.Helper()
	n.converge()
	view, _ := n.View()
	all := []string{}
	for _, p := range view.Problems {
		if slices.Contains(reasons, p.Reason) {
			all = append(all, p.String())
		}
	}
	return all
}

// What the runtime's version leaves open is proved by the first container: one that has its devices clears it for good, one that
// has not is named with the directory. Nobody looks while there is nothing to see, nor after the proof, and nothing is refused.
func TestInjectionIsProved(t *testing.T) {
	n := newNode(t, "1xl40s,1xh100-sxm5-80gb")
	looker := &sights{t: t, seen: map[string]agent.Sight{}}
	n.cdi = &agent.CDI{Dir: "/run/specs", Containers: looker}
	n.start()
	says := func(words ...string) {
		t.Helper()
		got := strings.Join(n.problemsOf(agent.ReasonCDIUnknown, agent.ReasonCDINotSupported, agent.ReasonCDINotInjected), "\n")
		if len(words) == 0 && got != "" {
			t.Errorf("it says %q", got)
		}
		for _, word := range words {
			if !strings.Contains(got, word) {
				t.Errorf("no %q in %q", word, got)
			}
		}
		view, _ := n.View()
		for _, l := range view.Lists["nvidia.com/gpu"] {
			if l.Fault != "" {
				t.Errorf("%s is refused: %s", l.ID, l.Fault)
			}
		}
	}
	says() // no Node was seen yet
	n.SetRuntime("containerd://1.6.33")
	says("CDINotSupported: containerd://1.6.33", "--device-list-strategy=envvar")
	n.SetRuntime("containerd://2.4.2")
	says()
	n.SetRuntime("containerd://1.7.27")
	says("CDIUnknown: containerd://1.7.27", "enable_cdi", "/run/specs")
	if len(looker.looks) > 0 {
		t.Errorf("without an allocation somebody looked at %v", looker.looks)
	}

	first, second := n.machine.GPUs()[0], n.machine.GPUs()[1]
	hold := func(holder, id string) kubelet.Allocation {
		return kubelet.Allocation{Resource: "nvidia.com/gpu", ID: id, Holder: holder}
	}
	n.kubelet.set(nil, hold("pod 1234/main", first.UUID), hold("x/other/main", "fpga-1"))
	says("CDIUnknown")
	if len(looker.looks) > 0 {
		t.Errorf("somebody looked at %v: a pod that only the checkpoint knows, and a device that is not ours", looker.looks)
	}
	looker.seen["a/trainer/main"] = agent.Sight{Judged: true, Lacks: "it runs without /dev/nvidia0"}
	n.kubelet.set(nil, hold("a/trainer/main", first.UUID))
	says("CDINotInjected: a/trainer/main: it runs without /dev/nvidia0", "/run/specs", "--cdi-dir", "enable_cdi")
	n.SetRuntime("containerd://2.4.2")
	says("CDINotInjected: a/trainer/main")
	n.kubelet.set(nil)
	says() // the container that could tell is gone
	looker.seen["b/late/main"] = agent.Sight{}
	n.kubelet.set(nil, hold("a/trainer/main", first.UUID), hold("b/late/main", second.UUID))
	says("CDINotInjected: a/trainer/main")
	looker.looks = nil
	looker.seen["b/late/main"] = agent.Sight{Judged: true}
	says()
	if diff := []string{"b/late/main[1]"}; !slices.Equal(looker.looks, diff) {
		t.Errorf("looked at %v, want %v first, and nothing after the proof", looker.looks, diff)
	}
	looker.looks = nil
	n.SetRuntime("containerd://1.7.27")
	for range 3 {
		says()
	}
	if len(looker.looks) > 0 {
		t.Errorf("after the proof somebody looked at %v", looker.looks)
	}
}

// Of many containers that hold devices a pass looks at a few, so that a pass is bounded.
func TestLooksAreBounded(t *testing.T) {
	n := newNode(t, "8xl40s")
	looker := &sights{t: t}
	n.cdi = &agent.CDI{Dir: "/run/specs", Containers: looker}
	n.start()
	all := []kubelet.Allocation{}
	for i, g := range n.machine.GPUs() {
		all = append(all, kubelet.Allocation{Resource: "nvidia.com/gpu", ID: g.UUID, Holder: fmt.Sprintf("a/p%d/main", i)})
	}
	n.kubelet.set(nil, all...)
	n.converge()
	if len(looker.looks) == 0 || len(looker.looks) > 4 {
		t.Errorf("%d looks in one pass", len(looker.looks))
	}
	n.converge()
	seen := slices.Sorted(slices.Values(looker.looks))
	if seen = slices.Compact(seen); len(seen) != 8 {
		t.Errorf("after two passes of four looks only %v were looked at; who says nothing keeps the others from being asked", seen)
	}
}

// What a part of the process says is a problem of the node until that part says otherwise, and wakes the agent only then.
func TestPartsSpeak(t *testing.T) {
	n := newNode(t, "1xl40s")
	unusable := agent.Problem{Reason: agent.ReasonCDIDirUnusable, Message: "read-only"}
	n.SetProblems("cdi", []agent.Problem{unusable})
	n.SetProblems("strategy", []agent.Problem{{Reason: agent.ReasonEnvInjectionOpen, Message: "open"}})
	both := []string{"CDIDirUnusable: read-only", "EnvInjectionOpen: open"}
	if got := n.problemsOf(agent.ReasonCDIDirUnusable, agent.ReasonEnvInjectionOpen); !slices.Equal(got, both) {
		t.Errorf("%v, want %v", got, both)
	}
	n.SetProblems("cdi", nil)
	if got := n.problemsOf(agent.ReasonCDIDirUnusable, agent.ReasonEnvInjectionOpen); !slices.Equal(got, both[1:]) {
		t.Errorf("%v, want %v", got, both[1:])
	}
}
