// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package cordon_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"

	"gpuslice/internal/cordon"
)

func split(text string) []string { return strings.Split(text, "|") }

// nodeOf is a Node with what its agent has written: the status of the condition and the annotation, "" for none.
func nodeOf(name, condition, annotation string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1", Annotations: map[string]string{}}}
	setCondition(n, corev1.NodeReady, "True")
	report(n, condition, annotation)
	return n
}

// report is what an agent writes.
func report(n *corev1.Node, condition, annotation string) {
	if condition != "" {
		setCondition(n, cordon.HealthCondition, condition)
	}
	if annotation != "" {
		n.Annotations[cordon.CountAnnotation] = annotation
	}
}

func setCondition(n *corev1.Node, kind corev1.NodeConditionType, status string) {
	n.Status.Conditions = slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind })
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionStatus(status)})
}

func setNote(n *corev1.Node, key string, there bool) {
	if there {
		n.Annotations[key] = "why"
	}
}

// server is an API server with Nodes that have versions: a patch for another version than the current one is a conflict.
type server struct {
	t *testing.T
	*fake.Clientset
	mu      sync.Mutex
	version int
	patches []string                           // "NODE CHANGE", in order, those that were taken
	tries   []time.Time                        // every patch that was sent
	before  func(node string, patch int) error // what happens before a patch is taken
	events  []string
}

var nodes = corev1.SchemeGroupVersion.WithResource("nodes")

func serve(t *testing.T, list ...*corev1.Node) *server {
	t.Helper()
	s := &server{t: t, Clientset: fake.NewClientset(), version: 1}
	for _, n := range list {
		s.add(n)
	}
	s.PrependReactor("patch", "nodes", func(a ktesting.Action) (bool, runtime.Object, error) {
		p, ok := a.(ktesting.PatchAction)
		if !ok || p.GetSubresource() != "" || p.GetPatchType() != types.MergePatchType {
			t.Errorf("not a merge patch of a Node: %v", a)
		}
		n, err := s.patch(p.GetName(), p.GetPatch())
		return true, n, err
	})
	s.PrependReactor("*", "leases", s.leases())
	s.PrependReactor("create", "events", func(a ktesting.Action) (bool, runtime.Object, error) {
		created, ok := a.(ktesting.CreateAction)
		if !ok {
			return false, nil, nil
		}
		text, err := json.Marshal(created.GetObject())
		if err != nil {
			t.Error(err)
		}
		var e struct {
			Reason    string
			Regarding corev1.ObjectReference
		}
		if err := json.Unmarshal(text, &e); err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events = append(s.events, e.Regarding.Name+" "+e.Reason)
		return true, created.GetObject(), nil
	})
	return s
}

// leases keeps one Lease, and takes an update only of the version that it has. That of the clientset does neither, and takes a
// thousand times as long, which a day of renewals adds up to minutes.
func (s *server) leases() ktesting.ReactionFunc {
	var lease *coordinationv1.Lease
	return func(a ktesting.Action) (bool, runtime.Object, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		kind := coordinationv1.SchemeGroupVersion.WithResource("leases").GroupResource()
		written, ok := a.(interface{ GetObject() runtime.Object })
		switch {
		case a.GetVerb() == "get" && lease == nil:
			return true, nil, apierrors.NewNotFound(kind, cordon.LeaseName)
		case a.GetVerb() == "get":
			return true, lease.DeepCopy(), nil
		case !ok:
			return false, nil, nil
		}
		next, ok := written.GetObject().DeepCopyObject().(*coordinationv1.Lease)
		if !ok || next.Namespace != "gpuslice" || next.Name != cordon.LeaseName {
			s.t.Errorf("not the Lease: %v", written.GetObject())
		}
		if lease != nil && next.ResourceVersion != lease.ResourceVersion {
			return true, nil, apierrors.NewConflict(kind, next.Name, errors.New("it has changed"))
		}
		s.version++
		next.ResourceVersion = strconv.Itoa(s.version)
		lease = next
		return true, lease.DeepCopy(), nil
	}
}

func (s *server) add(n *corev1.Node) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	n = n.DeepCopy()
	n.ResourceVersion = strconv.Itoa(s.version)
	if err := s.Tracker().Create(nodes, n, ""); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) remove(name string) {
	s.t.Helper()
	if err := s.Tracker().Delete(nodes, "", name); err != nil {
		s.t.Fatal(err)
	}
}

// node is a Node as the server has it.
func (s *server) node(name string) *corev1.Node {
	s.t.Helper()
	o, err := s.Tracker().Get(nodes, "", name)
	if err != nil {
		s.t.Fatal(err)
	}
	n, ok := o.(*corev1.Node)
	if !ok {
		s.t.Fatalf("%T", o)
	}
	return n.DeepCopy()
}

// edit is what anybody else does to a Node.
func (s *server) edit(name string, change func(*corev1.Node)) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.node(name)
	change(n)
	s.store(n)
}

func (s *server) store(n *corev1.Node) {
	s.version++
	n.ResourceVersion = strconv.Itoa(s.version)
	if err := s.Tracker().Update(nodes, n.DeepCopy(), ""); err != nil {
		s.t.Error(err)
	}
}

// patch takes exactly what a cordon may write; a patch of anything else fails the test.
func (s *server) patch(name string, text []byte) (*corev1.Node, error) {
	s.mu.Lock()
	s.tries = append(s.tries, time.Now())
	number, before := len(s.tries), s.before
	s.mu.Unlock()
	if before != nil {
		if err := before(name, number); err != nil {
			return nil, err
		}
	}
	var p struct {
		Metadata struct {
			ResourceVersion string
			Annotations     map[string]*string
		}
		Spec *struct{ Unschedulable *bool }
	}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		s.t.Errorf("patch of more than cordon and mark: %v: %s", err, text)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.node(name)
	if p.Metadata.ResourceVersion != "" && p.Metadata.ResourceVersion != n.ResourceVersion { // without, a patch is for any version
		return nil, apierrors.NewConflict(nodes.GroupResource(), name, fmt.Errorf("it is at %s, not %s", n.ResourceVersion, p.Metadata.ResourceVersion))
	}
	change := "annotate"
	if p.Spec != nil {
		n.Spec.Unschedulable = p.Spec.Unschedulable != nil && *p.Spec.Unschedulable
		change = map[bool]string{true: "cordon", false: "uncordon"}[n.Spec.Unschedulable]
	}
	for key, value := range p.Metadata.Annotations {
		if key != cordon.MarkAnnotation && key != cordon.OverruledAnnotation {
			s.t.Errorf("patch of annotation %s", key)
		}
		delete(n.Annotations, key)
		if value != nil {
			n.Annotations[key] = *value
		}
	}
	s.patches = append(s.patches, name+" "+change)
	s.store(n)
	return n.DeepCopy(), nil
}

func (s *server) done() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.patches)
}

func (s *server) said() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// late lets everything that a watch brings come so much later than it happens.
func late(w watch.Interface, by time.Duration) watch.Interface {
	type event struct {
		watch.Event
		due time.Time
	}
	happened, told := make(chan event, 1000), make(chan watch.Event)
	proxy := watch.NewProxyWatcher(told)
	go func() {
		defer w.Stop()
		for {
			select {
			case <-proxy.StopChan():
				return
			case e := <-w.ResultChan():
				happened <- event{e, time.Now().Add(by)}
			}
		}
	}()
	go func() {
		for {
			select {
			case <-proxy.StopChan():
				return
			case e := <-happened:
				<-time.After(time.Until(e.due))
				select {
				case told <- e.Event:
				case <-proxy.StopChan():
				}
			}
		}
	}()
	return proxy
}

// replica is one running process.
type replica struct {
	*cordon.Controller
	kill func()
}

// run starts a process. When it is killed it leaves the Lease as it is.
func (s *server) run(name string, with cordon.Settings) *replica {
	ctx, cancel := context.WithCancel(klog.NewContext(s.t.Context(), klog.Background()))
	c := cordon.New(s.Clientset, cordon.Options{Settings: with, Namespace: "gpuslice", Identity: name})
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return &replica{c, func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	}}
}

// isOurs wants a node to be cordoned and marked.
func (s *server) isOurs(name string, want bool) {
	s.t.Helper()
	n := s.node(name)
	mark, marked := n.Annotations[cordon.MarkAnnotation]
	if n.Spec.Unschedulable != want || marked != want || marked && mark == "" {
		s.t.Errorf("%s: unschedulable %v, mark %q %v; want both %v", name, n.Spec.Unschedulable, mark, marked, want)
	}
}
