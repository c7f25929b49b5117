// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package deviceplugin_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"tags.cncf.io/container-device-interface/specs-go"

	"gpuslice/internal/agent"
	"gpuslice/internal/deviceplugin"
)

// hosts finds the one cgroup there is, or none.
type hosts struct {
	dir     string
	version error
}

func (h hosts) Unified() error         { return h.version }
func (h hosts) Of(int) (string, error) { return h.dir, nil }
func (h hosts) Exists(string) bool     { return true }
func (h hosts) IsRoot(string) bool     { return false }

// The GPUs that are shared and whose driver has limits get the hook, each with its own UUID; nobody else does, and nobody without
// a cgroup hierarchy of version 2.
func TestHookOfBoundedShares(t *testing.T) {
	program := filepath.Join(t.TempDir(), "gpuslice-hook")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	const config = head + "layouts: {it: {timeSlicing: {replicas: 2, rename: true, memory: share}}}\nnodes: [{gpus: [{select: {index: [0-1]}, layout: it}, {layout: whole}]}]\n"
	for _, tc := range []struct {
		why     string
		version error
		bounded bool
	}{
		{"version 2", nil, true},
		{"version 1", errors.New("no hierarchy of version 2"), false},
	} {
		t.Run(tc.why, func(t *testing.T) {
			r := &rig{prepare: func(string) {}, cgroups: hosts{dir: t.TempDir(), version: tc.version}}
			r.options = deviceplugin.Options{Strategy: "cdi"}
			r.options.Hook.Path, r.options.Hook.Args = program, []string{"gpuslice-hook", "--socket=/s"}
			r.run(t, "@"+machineFile(t, "driver: {version: 615.28.01}\ngpus: [{model: l40s, count: 3}]\n"))
			r.config(config)
			r.healthy("gpu.shared", 4)
			want := map[string][]string{}
			if tc.bounded {
				for index, g := range r.machine.GPUs()[:2] {
					want[g.UUID] = []string{program + " gpuslice-hook --socket=/s " + g.UUID}
					want[strconv.Itoa(index)] = want[g.UUID]
				}
			}
			if diff := cmp.Diff(want, r.hooks()); diff != "" {
				t.Errorf("hooks (-want +got):\n%s", diff)
			}
			if view, _ := r.agent.View(); view.MemoryLimit != agent.NoLimit {
				t.Errorf("the node says %q", view.MemoryLimit)
			}
			r.config(strings.Replace(config, ", memory: share", "", 1))
			r.Wait("a spec without hooks", soonLimit, func() bool { return len(r.hooks()) == 0 })
		})
	}
}

func machineFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "machine.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// hooks are the command lines in the spec, by device.
func (r *rig) hooks() map[string][]string {
	r.t.Helper()
	var spec specs.Spec
	text, err := os.ReadFile(filepath.Join(r.cdiDir, "k8s.device-plugin.nvidia.com-gpu.json"))
	if err = errors.Join(err, json.Unmarshal(text, &spec)); err != nil {
		r.t.Fatal(err)
	}
	found := map[string][]string{}
	for _, d := range spec.Devices {
		for _, h := range d.ContainerEdits.Hooks {
			found[d.Name] = append(found[d.Name], h.Path+" "+strings.Join(h.Args, " "))
		}
	}
	return found
}
