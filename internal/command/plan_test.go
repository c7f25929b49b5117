// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	sorting "slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/internal/command"
)

// plan runs `gpu-plugin plan` and returns what a shell would see.
func plan(t *testing.T, args ...string) (status int, out string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	b := command.Binary{Name: "gpu-plugin", APIs: "device-plugin", Commands: []command.Command{command.PlanCommand()}}
	status = b.Main(t.Context(), append([]string{"plan"}, args...), command.Streams{Out: &stdout, Err: &stderr})
	if stderr.Len() > 0 {
		t.Fatalf("plan %v: %s", args, stderr.String())
	}
	return status, stdout.String()
}

// machineFile is a --hardware flag for a machine of one file.
func machineFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "machine.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "--hardware=sim:@" + path
}

// A plan says what it takes, what stays, what stands in the way and why, for every kind of step.
func TestPlanExplainsItself(t *testing.T) {
	for _, tc := range []struct {
		name, machine, layout string
		status                int
		want                  string
	}{
		{
			"idle instances go for a larger one, the busy one and one idle one stay",
			`gpus: [{model: h100-sxm5-80gb, instances: [3g.40gb@4, 1g.10gb@0, 1g.10gb@1, 1g.10gb@2], processes: [{pid: 4711, instance: 3g.40gb@4}]}]`,
			"{mig: {instances: {3g.40gb: 1, 2g.20gb: 1, 1g.10gb: 1}}}", 2,
			`plan gpu-0: destroy 1g.10gb@0; destroy 1g.10gb@1; create 2g.20gb@0
kept gpu-0: 1g.10gb@2
kept gpu-0: 3g.40gb@4 in use by pid 4711
reason gpu-0: destroy 1g.10gb@0: is in the way of 2g.20gb@0
reason gpu-0: destroy 1g.10gb@1: is in the way of 2g.20gb@0
1 of 1 GPUs change: 1 instances new, 2 gone
`,
		},
		{
			"an idle instance is given up where the wish has no other place",
			`gpus: [{model: h100-sxm5-80gb, instances: [3g.40gb@0]}]`,
			"{mig: {instances: {3g.40gb: 1, 4g.40gb: 1}}}", 2,
			`plan gpu-0: destroy 3g.40gb@0; create 4g.40gb@0; create 3g.40gb@4
reason gpu-0: destroy 3g.40gb@0: moves to 3g.40gb@4, is in the way of 4g.40gb@0
1 of 1 GPUs change: 2 instances new, 1 gone
`,
		},
		{
			"a busy one in the way is named, and nothing is done",
			`gpus: [{model: h100-sxm5-80gb, instances: [3g.40gb@0], processes: [{pid: 4711, instance: 3g.40gb@0}]}]`,
			"{mig: {instances: {7g.80gb: 1}}}", 3,
			`plan gpu-0: destroy 3g.40gb@0; create 7g.80gb@0
blocked gpu-0: 3g.40gb@0 in use by pid 4711
reason gpu-0: destroy 3g.40gb@0: is in the way of 7g.80gb@0
0 of 1 GPUs change: 0 instances new, 0 gone; 1 waiting
`,
		},
		{
			"an instance that no compute instance fills is made anew under a layout",
			`gpus: [{model: h100-sxm5-80gb, instances: ["3g.40gb@4{2c 1c}", "1g.10gb@0{}", 1g.10gb@1]}]`,
			"{mig: {instances: {3g.40gb: 1, 1g.10gb: 1}}}", 2,
			`plan gpu-0: destroy 1g.10gb@0; destroy 3g.40gb@4; create 3g.40gb@4
kept gpu-0: 1g.10gb@1
reason gpu-0: destroy 1g.10gb@0: it has no compute instance
reason gpu-0: destroy 3g.40gb@4: its compute instances are smaller than itself
1 of 1 GPUs change: 1 instances new, 2 gone
`,
		},
		{
			"media engines run out",
			`gpus: [{model: rtx-pro-6000-blackwell-se-96gb, mig: true}]`,
			"{mig: {instances: {1g.24gb+me.all: 1, 1g.24gb: 1}}}", 3,
			`Impossible gpu-0: layout it: 1g.24gb x1, 1g.24gb+me.all x1: with 1g.24gb+me.all they need 5 decoders, 5 encoders, 5 JPEG, 1 OFA; the GPU has 4, 4, 4, 1: does not fit
0 of 1 GPUs change: 0 instances new, 0 gone
`,
		},
		{
			"plain slices are filled with plain ones, never with attributes",
			`gpus: [{model: rtx-pro-6000-blackwell-se-96gb, mig: true, instances: [1g.24gb-me@0, 1g.24gb+gfx@3]}]`,
			"{mig: {fill: 1g}}", 2,
			`plan gpu-0: destroy 1g.24gb+gfx@3; destroy 1g.24gb-me@0; create 1g.24gb@0; create 1g.24gb@3; create 1g.24gb@6; create 1g.24gb@9
reason gpu-0: destroy 1g.24gb+gfx@3: is in the way of 1g.24gb@3
reason gpu-0: destroy 1g.24gb-me@0: is in the way of 1g.24gb@0
1 of 1 GPUs change: 4 instances new, 2 gone
`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, out := plan(t, machineFile(t, tc.machine), configFile(t, "layouts: {it: "+tc.layout+"}\nnodes: [{gpus: [{layout: it}]}]\n"))
			if diff := cmp.Diff(tc.want, out); diff != "" || status != tc.status {
				t.Errorf("status %d, want %d (-want +got):\n%s", status, tc.status, diff)
			}
		})
	}
}

// planKeys is every key of plan -o json, typed by hand: keys are only ever added.
var planKeys = []string{
	"gpus",
	"gpus[].blocked", "gpus[].kept", "gpus[].layout", "gpus[].line", "gpus[].name", "gpus[].needsReset",
	"gpus[].problems", "gpus[].problems[].gpu", "gpus[].problems[].message", "gpus[].problems[].reason",
	"gpus[].reasons", "gpus[].reasons[].step", "gpus[].reasons[].why",
	"gpus[].steps",
}

func TestPlanKeys(t *testing.T) {
	_, out := plan(t, "-o=json",
		machineFile(t, `gpus: [{model: h100-sxm5-80gb, instances: [3g.40gb@0], processes: [{pid: 4711, instance: 3g.40gb@0}]}]`),
		configFile(t, "layouts: {it: {mig: {instances: {7g.80gb: 1}}}}\nnodes: [{gpus: [{layout: it}]}]\n"))
	var document any
	if err := json.Unmarshal([]byte(out), &document); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	collectKeys(document, "", found)
	if diff := cmp.Diff(planKeys, sorting.Sorted(maps.Keys(found))); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func collectKeys(v any, path string, found map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			at := strings.TrimPrefix(path+"."+key, ".")
			found[at] = true
			collectKeys(value, at, found)
		}
	case []any:
		for _, item := range v {
			collectKeys(item, path+"[]", found)
		}
	}
}
