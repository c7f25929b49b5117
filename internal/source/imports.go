// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"gpuslice/internal/agent"
)

// Importer says which ConfigMaps in NVIDIA's formats the config names, and takes what they hold.
type Importer interface {
	ImportNames() (names map[agent.Import]string, changed <-chan struct{})
	SetImport(i agent.Import, name, source string, data map[string]string)
	ImportUnavailable(i agent.Import, name string, err error)
}

// fieldOf is where a SharingConfig names each.
var fieldOf = map[agent.Import]string{
	agent.DevicePluginConfig: "nvidia.devicePluginConfig",
	agent.MIGPartedConfig:    "nvidia.migPartedConfig",
}

// Imports follows the ConfigMaps in NVIDIA's formats that the config names at any time, until ctx ends. Without a client it
// says that they cannot be read.
func Imports(ctx context.Context, client kubernetes.Interface, namespace string, jitter time.Duration, sink Importer) error {
	for ctx.Err() == nil {
		names, changed := sink.ImportNames()
		life, end := context.WithCancel(ctx)
		group, life := errgroup.WithContext(life)
		for i, name := range names {
			group.Go(func() error { return followImport(life, client, namespace, jitter, sink, i, name) })
		}
		untilRenamed(ctx, names, changed, sink)
		end()
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// untilRenamed returns when other ConfigMaps are named, or when ctx ends.
func untilRenamed(ctx context.Context, names map[agent.Import]string, changed <-chan struct{}, sink Importer) {
	for current := names; maps.Equal(current, names); current, changed = sink.ImportNames() {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

func followImport(ctx context.Context, client kubernetes.Interface, namespace string, jitter time.Duration, sink Importer, i agent.Import, name string) error {
	if client == nil {
		sink.ImportUnavailable(i, name, fmt.Errorf("%s: configmap %s is read through the API server, and this agent runs without one", fieldOf[i], name))
		return nil
	}
	api := client.CoreV1().ConfigMaps(namespace)
	source := fmt.Sprintf("configmap %s/%s", namespace, name)
	brought := map[string]string(nil)
	take := func(m *corev1.ConfigMap) {
		if m == nil {
			sink.ImportUnavailable(i, name, fmt.Errorf("%s: %s %w", fieldOf[i], source, errAbsent))
			return
		}
		if brought != nil && !maps.Equal(brought, m.Data) && jitter > 0 {
			wait(ctx, rand.N(jitter)) // so that the nodes of a cluster do not all change at the same moment
		}
		brought = maps.Clone(m.Data)
		sink.SetImport(i, name, source, m.Data)
	}
	return follow(ctx, name, &corev1.ConfigMap{}, lister{
		client: client,
		list:   func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, o) },
		watch:  api.Watch,
	}, take)
}

var errAbsent = errors.New("does not exist")

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
