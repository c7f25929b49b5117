// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package cordon

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// LeaseName is the Lease that the one that acts holds.
const LeaseName = "gpuslice-cordon"

// Times of the election are the usual ones of Kubernetes' own controllers.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// settle is the least time between two looks at all nodes, so that a large cluster does not keep a core busy.
const settle = time.Second

// Controller cordons and uncordons while it holds the Lease. All that must last is on the Nodes.
type Controller struct {
	client    kubernetes.Interface
	settings  Settings
	namespace string
	identity  string

	acting sync.Mutex // the time of one term ends before the next begins
	status atomic.Pointer[Status]
	leader atomic.Pointer[string]
}

// Options of a Controller.
type Options struct {
	Settings  Settings
	Namespace string // of the Lease
	Identity  string // no two processes have the same
}

// New returns a Controller.
func New(client kubernetes.Interface, o Options) *Controller {
	return &Controller{client: client, settings: o.Settings, namespace: o.Namespace, identity: o.Identity}
}

// Status is what can be asked from outside.
type Status struct {
	Leader   string   `json:"leader"`             // who acts
	Leading  bool     `json:"leading"`            // this process does
	GPUNodes int      `json:"gpuNodes,omitempty"` // as the one that acts sees them
	Cordoned []string `json:"cordoned,omitempty"` // from here
	Refused  []string `json:"refused,omitempty"`  // would be cordoned if the limit allowed it
}

// Status says who acts and, if that is this process, on what.
func (c *Controller) Status() Status {
	s := Status{}
	if acting := c.status.Load(); acting != nil {
		s = *acting
		s.Leading = true
	}
	if leader := c.leader.Load(); leader != nil {
		s.Leader = *leader
	}
	return s
}

// Ready returns why the process is of no use yet: it neither acts nor knows who does.
func (c *Controller) Ready() error {
	leader := c.leader.Load()
	if leader == nil {
		return errors.New("the Lease is not read yet")
	}
	if *leader == c.identity && c.status.Load() == nil {
		return errors.New("the Nodes are not read yet")
	}
	return nil
}

// Run acts whenever it holds the Lease, until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	for ctx.Err() == nil { // a term ends when the Lease cannot be renewed in time
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Name: LeaseName,
			Lock: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Name: LeaseName, Namespace: c.namespace},
				Client:     c.client.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: c.identity},
			},
			LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: c.act,
				OnStoppedLeading: func() {},
				OnNewLeader:      func(who string) { c.leader.Store(&who) },
			},
		})
		if err != nil {
			return err
		}
		elector.Run(ctx)
	}
	return nil
}

// act is one term: it follows the Nodes and does what is to be done, until ctx ends.
func (c *Controller) act(ctx context.Context) {
	c.acting.Lock()
	defer c.acting.Unlock()
	defer c.status.Store(nil)
	changed := make(chan struct{}, 1)
	kick := func() {
		select {
		case changed <- struct{}{}:
		default: // it will look anyway
		}
	}
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ObjectType: &corev1.Node{}, ListerWatcher: nodesOf(c.client), Transform: trim,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { kick() }, UpdateFunc: func(any, any) { kick() }, DeleteFunc: func(any) { kick() },
		},
	})
	following := sync.WaitGroup{}
	defer following.Wait()
	following.Go(func() { informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return
	}
	klog.FromContext(ctx).Info("Following the nodes", "threshold", c.settings.Threshold.String(), "wait", c.settings.Wait, "maxCordoned", c.settings.MaxCordoned.String())
	t := newTerm(c)
	for ctx.Err() == nil {
		next := t.pass(ctx, listed(store), time.Now())
		c.await(ctx, changed, next)
	}
}

// await waits for a change, or for when something is due.
func (c *Controller) await(ctx context.Context, changed <-chan struct{}, next time.Time) {
	var due <-chan time.Time
	if !next.IsZero() {
		due = time.After(time.Until(next))
	}
	select {
	case <-ctx.Done():
		return
	case <-changed:
	case <-due:
	}
	select {
	case <-ctx.Done():
	case <-time.After(settle):
	}
}

func listed(store cache.Store) []*corev1.Node {
	nodes := []*corev1.Node{}
	for _, o := range store.List() {
		if n, ok := o.(*corev1.Node); ok {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// nodesOf reads all Nodes. The first list is of now and not from a cache of the server's: it has every cordon that the term before made.
func nodesOf(client kubernetes.Interface) cache.ListerWatcher {
	api := client.CoreV1().Nodes()
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if o.ResourceVersion == "0" {
				o.ResourceVersion = ""
			}
			return api.List(ctx, o)
		},
		WatchFuncWithContext: api.Watch,
	}, client)
}

// trim drops what is large on a Node and not asked for here.
func trim(o any) (any, error) {
	if n, ok := o.(*corev1.Node); ok {
		n.ManagedFields, n.Labels, n.Status.Images = nil, nil, nil
	}
	return o, nil
}
