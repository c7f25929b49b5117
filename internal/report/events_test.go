// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package report_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"gpuslice/internal/agent"
	"gpuslice/internal/report"
)

// A problem is told once when it appears, with its stable reason and the text of the condition; one that comes and goes is not
// told each time; one that comes back after a while is.
func TestEvents(t *testing.T) {
	blocked := agent.Problem{GPU: "gpu-1", Reason: agent.ReasonBlocked, Message: "3g.40gb@0 in use by team-a/trainer"}
	alias := agent.Problem{GPU: "gpu-0", Reason: agent.ReasonAlias, Message: "7g.79gb is called 7g.80gb"}
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		v := &views{changed: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- report.Events(ctx, client, "n1", v) }()
		count := 0
		wants := func(why string, more ...string) {
			t.Helper()
			synctest.Wait()
			got := []string{}
			for _, action := range client.Actions() {
				e := action.(clienttesting.CreateAction).GetObject().(*eventsv1.Event)
				got = append(got, e.Type+" "+e.Reason+" "+e.Regarding.Name+": "+e.Note)
			}
			if len(got) != count+len(more) {
				t.Fatalf("%s: events %q, want %d more than %d", why, got, len(more), count)
			}
			if diff := cmp.Diff(more, append([]string(nil), got[count:]...)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", why, diff)
			}
			count = len(got)
		}
		wants("nothing is known yet")
		v.set(&agent.View{Problems: []agent.Problem{blocked}})
		wants("a problem appears", "Warning Blocked n1: Blocked gpu-1: 3g.40gb@0 in use by team-a/trainer")
		v.set(&agent.View{Problems: []agent.Problem{alias, blocked}})
		wants("information is no warning", "Normal Alias n1: Alias gpu-0: 7g.79gb is called 7g.80gb")
		v.set(&agent.View{Problems: []agent.Problem{alias}})
		v.set(&agent.View{Problems: []agent.Problem{alias, blocked}})
		wants("it flaps")
		v.set(&agent.View{})
		synctest.Wait()
		<-time.After(time.Hour)
		v.set(&agent.View{Problems: []agent.Problem{blocked}})
		wants("it is back after a while", "Warning Blocked n1: Blocked gpu-1: 3g.40gb@0 in use by team-a/trainer")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
