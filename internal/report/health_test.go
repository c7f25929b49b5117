// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package report_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"gpuslice/internal/agent"
	"gpuslice/internal/report"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/health"
)

// H17: a change of health is told once, on the Node and on each pod concerned that is still there; an API server that is away delays
// it and loses nothing, and a second attempt makes no second Event.
func TestChangesOfHealthAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "trainer", UID: "u1"}},
			&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "gpu"}, Status: resourceapi.ResourceClaimStatus{
				ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "trainer"}, {APIGroup: "x", Resource: "jobs", Name: "j"}},
			}})
		told, away := []string{}, atomic.Bool{}
		client.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
			e := action.(clienttesting.CreateAction).GetObject().(*eventsv1.Event)
			if away.Load() && e.Regarding.Kind == "Node" {
				return true, nil, errors.New("API server is away")
			}
			return false, nil, nil
		})
		v := &views{changed: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- report.Health(ctx, client, "n1", v) }()
		wants := func(why string, more ...string) {
			t.Helper()
			synctest.Wait()
			got := []string{}
			for _, namespace := range []string{"team-a", "default"} {
				list, err := client.EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range list.Items {
					got = append(got, fmt.Sprintf("%s %s %s %s/%s: %s", e.Type, e.Reason, e.Regarding.Kind, e.Regarding.Name, e.Regarding.UID, e.Note))
				}
			}
			told = append(told, more...)
			if diff := cmp.Diff(map[string]int{}, difference(told, got)); diff != "" {
				t.Errorf("%s (-missing +too many):\n%s", why, diff)
			}
		}
		sick := agent.HealthChange{Seq: 1, GPU: "gpu-3", Kind: agent.BecameUnhealthy, Text: "gpu-3: XID 48", Holders: []string{"team-a/trainer", "team-b/gone"}}
		well := agent.HealthChange{Seq: 2, GPU: "gpu-3", Kind: agent.BecameHealthy, Text: "gpu-3: healthy again", Holders: []string{"team-a/trainer"}}
		note := agent.HealthChange{Seq: 3, GPU: "gpu-0", Kind: agent.XIDsNoted, Text: "gpu-0: XID 31", Holders: []string{"claim team-a/gpu", "claim team-a/gone"}}
		v.set(&agent.View{Changes: []agent.HealthChange{sick}})
		wants("sick", "Warning GPUUnhealthy Pod trainer/u1: gpu-3: XID 48", "Warning GPUUnhealthy Node n1/n1: gpu-3: XID 48")
		v.set(&agent.View{Changes: []agent.HealthChange{sick}, Generation: 2})
		wants("a view without news")
		away.Store(true)
		v.set(&agent.View{Changes: []agent.HealthChange{sick, well, note}})
		wants("the API server is away", "Normal GPUHealthy Pod trainer/u1: gpu-3: healthy again")
		away.Store(false)
		<-time.After(time.Minute)
		wants("it is back", "Normal GPUHealthy Node n1/n1: gpu-3: healthy again", "Warning GPUErrors Node n1/n1: gpu-0: XID 31", "Warning GPUErrors Pod trainer/u1: gpu-0: XID 31")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// P3: a pod that cannot be told, because its namespace is going, keeps nobody else from being told; the longest name that a pod may
// have is told of too.
func TestOnePodThatCannotBeTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("a", 252) + "b"
		client := fake.NewClientset(
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "going", Name: "trainer", UID: "u1"}},
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: long, UID: "u2"}},
		)
		client.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if action.GetNamespace() == "going" {
				return true, nil, apierrors.NewForbidden(eventsv1.Resource("events"), "", errors.New("unable to create new content in namespace going because it is being terminated"))
			}
			return false, nil, nil
		})
		v := &views{changed: make(chan struct{}), view: &agent.View{Changes: []agent.HealthChange{
			{Seq: 1, GPU: "gpu-0", Kind: agent.BecameUnhealthy, Text: "sick", Holders: []string{"going/trainer", "team-a/" + long}},
			{Seq: 2, GPU: "gpu-1", Kind: agent.BecameUnhealthy, Text: "sick too"},
		}}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- report.Health(ctx, client, "n1", v) }()
		synctest.Wait()
		told := []string{}
		for _, namespace := range []string{"team-a", "default"} {
			list, err := client.EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range list.Items {
				told = append(told, e.Regarding.Kind+" "+e.Note)
				if faults := validation.IsDNS1123Subdomain(e.Name); len(faults) > 0 {
					t.Errorf("event %q: %v", e.Name, faults)
				}
			}
		}
		if diff := cmp.Diff(map[string]int{}, difference([]string{"Pod sick", "Node sick", "Node sick too"}, told)); diff != "" {
			t.Errorf("told %q\n%s", told, diff)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// difference counts what is in the second list and not in the first; below zero the other way round.
func difference(a, b []string) map[string]int {
	n := map[string]int{}
	for _, x := range b {
		n[x]++
	}
	for _, x := range a {
		if n[x]--; n[x] == 0 {
			delete(n, x)
		}
	}
	return n
}

// The condition and the annotation say how many GPUs are unhealthy, as a whole or in part, and why; those that cannot be handed out
// anyway do not count, and all GPUs lost at once are not unhealthy.
func TestConditionOfHealth(t *testing.T) {
	reset := health.State{Faults: []health.Fault{{Source: health.XID, XID: 48, GI: health.Whole, Class: health.Reset}}}
	part := health.State{Faults: []health.Fault{{Source: health.XID, XID: 95, GI: 3, Class: health.Reset}}}
	gpu := func(minor int) devices.GPU { return devices.GPU{UUID: fmt.Sprintf("GPU-%d", minor), Minor: minor} }
	lost, polled, odd := gpu(1), gpu(1), gpu(1)
	lost.Fault, polled.Polled, odd.Unsupported = errors.New("lost"), true, errors.New("not supported here")
	for _, tc := range []struct {
		name    string
		targets []agent.Target
		want    string
	}{
		{"no GPU", nil, "Unknown NoGPU 0/0 no GPU is known"},
		{"well", []agent.Target{{GPU: gpu(0)}, {GPU: gpu(1)}}, "True AllHealthy 0/2"},
		{"whole and part", []agent.Target{{GPU: gpu(0), Health: reset}, {GPU: gpu(1), Health: part}, {GPU: gpu(2)}}, "False GPUUnhealthy 2/3"},
		{"does not answer", []agent.Target{{GPU: gpu(0)}, {GPU: lost}}, "False GPUUnhealthy 1/2"},
		{"all lost at once", []agent.Target{{GPU: lost, AccessLost: true}}, "True AllHealthy 0/1"},
		{"not for us", []agent.Target{{GPU: gpu(0)}, {GPU: odd}}, "True AllHealthy 0/1"},
		{"polled", []agent.Target{{GPU: polled}}, "True AllHealthy 0/1 read every now and then: gpu-1"},
	} {
		f := report.FactsOf(&agent.View{Targets: tc.targets}).Health
		words := strings.SplitN(tc.want, " ", 4)
		if got := fmt.Sprintf("%s %s %s", f.Status, f.Reason, f.Unhealthy); got != strings.Join(words[:3], " ") || !strings.HasSuffix(f.Message, strings.Join(words[3:], "")) {
			t.Errorf("%s: %s %q, want %s", tc.name, got, f.Message, tc.want)
		}
	}
	if f := report.FactsOf(nil).Health; f.Status != corev1.ConditionUnknown || f.Unhealthy != "" {
		t.Errorf("at the start: %+v", f)
	}
}
