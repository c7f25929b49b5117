// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpuslice/pkg/devices"
	"gpuslice/test/cluster/node"
	"gpuslice/test/stage"
)

// recovery is ten times the 30 s between two looks at a GPU that is let go of.
const recovery = 5 * time.Minute

// ctl is a control of the driver that must work.
func (s *scene) ctl(words ...string) string {
	s.t.Helper()
	out, err := s.Driver.Control(words...)
	if err != nil {
		s.t.Fatalf("%v: %v", words, err)
	}
	return out
}

// gi is the driver's id of the GPU instance in a slot, as a word of a control.
func (s *scene) gi(gpu int, slot string) string {
	s.t.Helper()
	for _, g := range s.Driver.Machine().GPUs() {
		for _, i := range g.Instances {
			if g.Number == gpu && i.Slot == slot {
				return strconv.Itoa(i.GI)
			}
		}
	}
	s.t.Fatalf("gpu-%d has no %s: %s", gpu, slot, s.Driver.Machine().Dump())
	return ""
}

// events counts the Events of a reason about an object, since the test began.
func (s *scene) events(kind, name, reason string, since time.Time) int {
	s.t.Helper()
	list, err := s.Client.EventsV1().Events(metav1.NamespaceAll).List(s.t.Context(), metav1.ListOptions{})
	s.must(err)
	count := 0
	for _, e := range list.Items {
		if e.Regarding.Kind == kind && e.Regarding.Name == name && e.Reason == reason && e.CreationTimestamp.After(since.Add(-time.Second)) {
			count++
		}
	}
	return count
}

// told waits for an Event.
func (s *scene) told(kind, name, reason string, since time.Time) {
	s.t.Helper()
	s.within(soon, fmt.Sprintf("%s %s has Event %s", kind, name, reason), func(context.Context) error {
		if s.events(kind, name, reason, since) == 0 {
			return fmt.Errorf("no Event %s", reason)
		}
		return nil
	})
}

// unhealthy waits until the Node counts so many GPUs.
func (s *scene) unhealthy(count string) {
	s.t.Helper()
	s.within(recovery, count+" GPUs unhealthy", func(ctx context.Context) error {
		n, err := s.Client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == "GPUHealthy" })
		if i < 0 {
			return fmt.Errorf("no condition GPUHealthy")
		}
		want := corev1.ConditionTrue
		if !strings.HasPrefix(count, "0/") {
			want = corev1.ConditionFalse
		}
		if c := n.Status.Conditions[i]; c.Status != want || n.Annotations["gpuslice.dev/gpus-unhealthy"] != count {
			return fmt.Errorf("%s, %s %s: %s", n.Annotations["gpuslice.dev/gpus-unhealthy"], c.Status, c.Reason, c.Message)
		}
		return nil
	})
}

// H01, H06, H17: on a real node a whole, a cut and a shared GPU become sick: exactly what is hit is unhealthy, the pod that holds it
// and the Node say so, and each comes back by its evidence in one process, although the driver refuses a reset while any session is open.
func TestSickGPUsHeal(t *testing.T) {
	s := begin(t, "3xh100-sxm5-80gb", config+`
layouts: {shares: {timeSlicing: {replicas: 4, rename: true}}}
nodes:
- gpus:
  - {select: {index: 0}, layout: whole}
  - {select: {index: 1}, layout: all-1g}
  - {select: {index: 2}, layout: shares}
`)
	t.Cleanup(func() { s.must(s.Annotate(context.WithoutCancel(t.Context()), "gpuslice.dev/release", "")) })
	all := map[string]int64{"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 7, "nvidia.com/gpu.shared": 4}
	s.offers(all)
	s.unhealthy("0/3")
	pid, began := s.PID(), time.Now()
	s.must(s.Run(t.Context(), stage.Workload{Name: "worker", Resource: "nvidia.com/gpu"}))

	s.ctl("xid", "0", "94") // the driver wants nothing: an application's
	s.told("Pod", "worker", "GPUErrors", began)
	s.offers(all)

	s.ctl("xid", "0", "48", "action=reset")
	s.unhealthy("1/3")
	s.listed(map[string]string{"nvidia.com/gpu": "0 healthy, 1 not", "nvidia.com/mig-1g.10gb": "7 healthy, 0 not", "nvidia.com/gpu.shared": "4 healthy, 0 not"})
	s.offers(map[string]int64{"nvidia.com/mig-1g.10gb": 7, "nvidia.com/gpu.shared": 4})
	s.health("worker", s.uuid(0, ""), corev1.ResourceHealthStatusUnhealthy)
	s.told("Pod", "worker", "GPUUnhealthy", began)
	s.told("Node", node.Name, "GPUUnhealthy", began)
	if _, err := s.Driver.Control("reset", "0"); err == nil || !strings.Contains(err.Error(), devices.ErrInUse.Error()) {
		t.Errorf("reset of a GPU that a pod holds: %v", err)
	}

	s.ctl("xid", "1", "95", s.gi(1, "1g.10gb@3"), "0", "action=reset")
	s.ctl("xid", "2", "79", "action=reboot")
	s.listed(map[string]string{"nvidia.com/gpu": "0 healthy, 1 not", "nvidia.com/mig-1g.10gb": "6 healthy, 1 not", "nvidia.com/gpu.shared": "0 healthy, 4 not"})
	s.unhealthy("3/3")

	// Nobody uses it any more, so the agent lets go of it and anybody's reset works.
	s.must(s.DeletePod(t.Context(), stage.Namespace, "worker"))
	s.within(recovery, "reset by others", func(context.Context) error {
		_, err := s.Driver.Control("reset", "0")
		return err
	})
	s.unhealthy("2/3")
	s.told("Node", node.Name, "GPUHealthy", began)

	// A GPU of which only a slice is sick goes on until an admin wants it reset.
	s.must(s.Annotate(t.Context(), "gpuslice.dev/release", "gpu-1"))
	s.within(recovery, "reset of the released one", func(context.Context) error {
		_, err := s.Driver.Control("reset", "1")
		return err
	})
	s.must(s.Annotate(t.Context(), "gpuslice.dev/release", ""))
	s.unhealthy("1/3")

	// The last one takes a load of the driver.
	s.must(s.Label(t.Context(), "nvidia.com/gpu.deploy.client", "paused-for-driver-upgrade"))
	s.within(recovery, "driver unloaded", func(context.Context) error {
		_, err := s.Driver.Control("unload")
		return err
	})
	s.ctl("load")
	s.must(s.Label(t.Context(), "nvidia.com/gpu.deploy.client", ""))
	s.unhealthy("0/3")
	s.offers(all)
	if s.must(s.Alive()); s.PID() != pid {
		t.Errorf("agent pid %d, was %d", s.PID(), pid)
	}
}

// H02: what a GPU has survives kill -9 of the agent, although it says nothing of it any more.
func TestFaultSurvivesTheAgent(t *testing.T) {
	s := begin(t, "2xl40s", wholeGPUs)
	s.offers(map[string]int64{"nvidia.com/gpu": 2})
	s.ctl("xid", "1", "79", "action=reboot")
	s.offers(map[string]int64{"nvidia.com/gpu": 1})
	s.must(s.KillAgent(t.Context()))
	s.ctl("sign", "1", "recovery-action", "none")
	s.must(s.StartAgent(t.Context()))
	s.unhealthy("1/2")
	s.offers(map[string]int64{"nvidia.com/gpu": 1})
	s.must(s.Annotate(t.Context(), "gpuslice.dev/clear-fault", s.uuid(1, "")))
	t.Cleanup(func() { s.must(s.Annotate(context.WithoutCancel(t.Context()), "gpuslice.dev/clear-fault", "")) })
	s.unhealthy("0/2")
	s.offers(map[string]int64{"nvidia.com/gpu": 2})
}

// The agent resets a sick GPU that nobody uses where the config lets it, through nvidia-smi, and cuts it anew.
func TestAgentResetsASickGPU(t *testing.T) {
	s := begin(t, "1xh100-sxm5-80gb", config+"nodes: [{gpus: [{layout: all-1g, reset: when-idle}]}]\n")
	s.offers(map[string]int64{"nvidia.com/mig-1g.10gb": 7})
	began := time.Now()
	s.ctl("sign", "0", "recovery-action", "reset")
	s.told("Node", node.Name, "GPUUnhealthy", began)
	s.told("Node", node.Name, "GPUHealthy", began)
	s.unhealthy("0/1")
	s.offers(map[string]int64{"nvidia.com/mig-1g.10gb": 7})
	if dump := s.ctl("dump"); strings.Contains(dump, "needs=") {
		t.Errorf("not reset: %s", dump)
	}
}

// The node of an agent that loses GPUs is cordoned by the process that is there for it, and uncordoned when they are well.
func TestNodeOfSickGPUsIsCordoned(t *testing.T) {
	s := begin(t, "2xl40s", wholeGPUs)
	s.offers(map[string]int64{"nvidia.com/gpu": 2})
	n, err := node.Attach()
	s.must(err)
	f := &fleet{t: t, n: n}
	f.install(filepath.Join(os.Getenv("GPUSLICE_ROOT"), "examples/cordon/cordon.yaml"))
	_, log := f.start("127.0.0.1:9421")
	f.ready("127.0.0.1:9421", log)
	s.ctl("sign", "1", "recovery-action", "reboot")
	f.until("cordoned", node.Name, true, true)
	s.ctl("sign", "1", "recovery-action", "none")
	s.must(s.Annotate(t.Context(), "gpuslice.dev/clear-fault", s.uuid(1, "")))
	t.Cleanup(func() { s.must(s.Annotate(context.WithoutCancel(t.Context()), "gpuslice.dev/clear-fault", "")) })
	f.until("uncordoned", node.Name, false, false)
}
