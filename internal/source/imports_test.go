// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package source_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"gpuslice/internal/agent"
	"gpuslice/internal/source"
)

// importer is a sink that says which ConfigMaps are named.
type importer struct {
	sink
	names   map[agent.Import]string
	renamed chan struct{}
}

func newImporter(names map[agent.Import]string) *importer {
	return &importer{names: names, renamed: make(chan struct{})}
}

func (i *importer) ImportNames() (map[agent.Import]string, <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.names, i.renamed
}

func (i *importer) rename(names map[agent.Import]string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.names = names
	close(i.renamed)
	i.renamed = make(chan struct{})
}

func (i *importer) SetImport(kind agent.Import, name, source string, data map[string]string) {
	i.note(fmt.Sprintf("%s %s %s %s", kind, name, source, strings.Join(slices.Sorted(maps.Values(data)), ",")))
}

func (i *importer) ImportUnavailable(kind agent.Import, name string, err error) {
	i.note(fmt.Sprintf("%s %s unavailable %v", kind, name, err))
}

// S04, S06: a ConfigMap that is not there is said by name and by who names it; it is heard when it comes, when its content is
// edited, and when another is named at run time.
func TestImports(t *testing.T) {
	client := fake.NewClientset()
	api := client.CoreV1().ConfigMaps("ns")
	s := newImporter(map[agent.Import]string{agent.DevicePluginConfig: "dp"})
	run(t, func(ctx context.Context) error { return source.Imports(ctx, client, "ns", 0, s) })
	s.hears(t, 0, "device-plugin-config dp unavailable nvidia.devicePluginConfig: configmap ns/dp does not exist")
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "dp"}, Data: map[string]string{"default": "one"}}
	if _, err := api.Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.hears(t, 1, "device-plugin-config dp configmap ns/dp one")
	m.Data["default"] = "two"
	if _, err := api.Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.hears(t, 2, "device-plugin-config dp configmap ns/dp two")
	if err := api.Delete(t.Context(), "dp", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.hears(t, 3, "device-plugin-config dp unavailable")
	s.rename(map[agent.Import]string{agent.MIGPartedConfig: "mp"})
	s.hears(t, 4, "mig-parted-config mp unavailable nvidia.migPartedConfig: configmap ns/mp does not exist")
	m = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "mp"}, Data: map[string]string{"config.yaml": "three"}}
	if _, err := api.Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.hears(t, 5, "mig-parted-config mp configmap ns/mp three") // nobody follows the other any more
}

// Without an API server NVIDIA's formats cannot be had, which is said and not waited for.
func TestImportsWithoutAPIServer(t *testing.T) {
	s := newImporter(map[agent.Import]string{agent.MIGPartedConfig: "mp"})
	run(t, func(ctx context.Context) error { return source.Imports(ctx, nil, "", 0, s) })
	s.hears(t, 0, "mig-parted-config mp unavailable nvidia.migPartedConfig: configmap mp is read through the API server, and this agent runs without one")
}
