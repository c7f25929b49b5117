// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Key is the key of the config in its ConfigMap.
const Key = "config.yaml"

// ConfigMap brings the config from one ConfigMap, watched by name, until ctx ends.
func ConfigMap(ctx context.Context, client kubernetes.Interface, namespace, name string, jitter time.Duration, sink Sink) error {
	api := client.CoreV1().ConfigMaps(namespace)
	source := fmt.Sprintf("configmap %s/%s", namespace, name)
	feed := feed{sink: sink, jitter: jitter}
	take := func(m *corev1.ConfigMap) {
		switch {
		case m == nil:
			feed.unavailable(fmt.Errorf("%s does not exist", source))
		case !hasKey(m):
			feed.unavailable(fmt.Errorf("%s has no key %s; it has %s", source, Key, strings.Join(slices.Sorted(maps.Keys(m.Data)), ", ")))
		default:
			feed.text(ctx, source+" "+Key, []byte(m.Data[Key]))
		}
	}
	return follow(ctx, name, &corev1.ConfigMap{}, lister{
		client: client,
		list:   func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, o) },
		watch:  api.Watch,
	}, take)
}

func hasKey(m *corev1.ConfigMap) bool {
	_, ok := m.Data[Key]
	return ok
}

// Node brings the labels, the annotations and the container runtime of one node until ctx ends.
func Node(ctx context.Context, client kubernetes.Interface, name string, sink Sink) error {
	api := client.CoreV1().Nodes()
	return follow(ctx, name, &corev1.Node{}, lister{
		client: client,
		list:   func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, o) },
		watch:  api.Watch,
	}, func(n *corev1.Node) {
		if n == nil {
			return // a Node that is not there yet has no labels to choose by
		}
		sink.SetRuntime(n.Status.NodeInfo.ContainerRuntimeVersion)
		if err := errors.Join(sink.SetAnnotations(n.Annotations), sink.SetLabels(n.Labels)); err != nil {
			klog.FromContext(ctx).Error(err, "What the Node says is not taken; it is brought again")
		}
	})
}

// resync is how often what is known is given again, for a sink that could not take it.
const resync = 10 * time.Second

// lister is how the objects of a kind are read.
type lister struct {
	client kubernetes.Interface // says whether its server can stream lists
	list   func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch  func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// named restricts a lister to the object of one name, so that the agent sees nothing else.
func (l lister) named(name string) cache.ListerWatcher {
	selector := fields.OneTermEqualSelector("metadata.name", name).String()
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			return l.list(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return l.watch(ctx, o)
		},
	}, l.client)
}

// follow gives take the object of a name as it is now, and nil when there is none.
func follow[T any, P interface {
	*T
	runtime.Object
}](ctx context.Context, name string, kind P, from lister, take func(P)) error {
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ObjectType:    kind,
		ListerWatcher: from.named(name),
		ResyncPeriod:  resync,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { give(o, take) },
			UpdateFunc: func(_, o any) { give(o, take) },
			DeleteFunc: func(any) { take(nil) },
		},
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		controller.RunWithContext(ctx)
	}()
	if cache.WaitForCacheSync(ctx.Done(), controller.HasSynced) && len(store.ListKeys()) == 0 {
		take(nil)
	}
	<-ended
	return nil
}

func give[P any](o any, take func(P)) {
	if p, ok := o.(P); ok {
		take(p)
	}
}
