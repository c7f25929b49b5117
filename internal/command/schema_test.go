// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"gpuslice/internal/agent"
	"gpuslice/internal/command"
	"gpuslice/internal/config"
	"gpuslice/internal/schema"
)

const docs = "../../docs"

// compiled reads a schema of docs/ with a library that knows nothing of ours.
func compiled(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(filepath.Join(docs, name))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func instance(t *testing.T, text []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Every plan document follows the schema; one that lacks a key, or has another kind of value, does not.
func TestPlanFollowsItsSchema(t *testing.T) {
	s := compiled(t, "plan.schema.json")
	for _, example := range examples(t) {
		for _, hardware := range []string{"--hardware=sim:2xa100-sxm4-40gb,1xl40s", "--hardware=sim:1xrtx-pro-6000-blackwell-se-96gb"} {
			_, out := plan(t, "-o=json", hardware, "--config=file:"+example)
			if err := s.Validate(instance(t, []byte(out))); err != nil {
				t.Errorf("%s: %v", example, err)
			}
			var document map[string][]map[string]any
			if err := json.Unmarshal([]byte(out), &document); err != nil {
				t.Fatal(err)
			}
			for key := range document["gpus"][0] {
				if key == "layout" { // absent where a GPU is unmanaged
					continue
				}
				value := document["gpus"][0][key]
				document["gpus"][0][key] = map[string]any{}
				refuses(t, s, document, "another kind of "+key)
				delete(document["gpus"][0], key)
				refuses(t, s, document, "no "+key)
				document["gpus"][0][key] = value
			}
		}
	}
}

func refuses(t *testing.T, s *jsonschema.Schema, document any, what string) {
	t.Helper()
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	if s.Validate(instance(t, text)) == nil {
		t.Errorf("the schema lets %s through", what)
	}
}

func TestStatusFollowsItsSchema(t *testing.T) {
	s := compiled(t, "status.schema.json")
	numa := 1
	full := command.Status{
		Verified: true, Generation: 7, ConfigHash: "abc", Claims: []string{"uid team-a/c"},
		GPUs: []command.StatusGPU{{
			InventoryGPU: command.InventoryGPU{NUMA: &numa, MIG: "on", Instances: []command.Instance{{Profile: "3g.40gb", Start: 4}}},
			Name:         "gpu-0", Devices: []command.StatusDevice{{Name: "gpu-0", Replicas: 1}}, Plan: []string{"create 3g.40gb@4"},
			Reasons: []command.PlanReason{{Step: "destroy 1g.10gb@0", Why: "not in the layout"}}, Blocked: []string{},
		}},
		Resources: []command.StatusResource{{Name: "nvidia.com/gpu", Healthy: 1}},
		Problems:  []agent.Problem{{GPU: "gpu-0", Reason: agent.ReasonBlocked, Message: "x"}},
	}
	text, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(instance(t, text)); err != nil {
		t.Error(err)
	}
	for _, part := range []string{`"verified":true`, `"name":"gpu-0"`, `"uuid":""`, `"healthy":1`, `"reason":"Blocked"`, `"blocked":[]`, `"why":"not in the layout"`} {
		broken := bytes.Replace(text, []byte(part), []byte(`"gone":0`), 1)
		if bytes.Equal(broken, text) || s.Validate(instance(t, broken)) == nil {
			t.Errorf("the schema lets a status without %s through", part)
		}
	}
}

const sharingHead = "apiVersion: gpuslice.dev/v1alpha1\nkind: SharingConfig\n"

// What the schema of a config refuses, Load refuses too; what Load takes, the schema takes.
func TestConfigSchemaAgreesWithLoad(t *testing.T) {
	s := compiled(t, "config.schema.json")
	for _, tc := range []struct {
		name, text string
		valid      bool
	}{
		{"every field", `
layouts:
  inference: {mig: {instances: {3g.40gb: 1, 1g.10gb+me.all: 3}}}
  exact: {mig: {slots: [4g.40gb@0, 3g.40gb@4]}}
  small: {mig: {fill: 1g}, timeSlicing: {replicas: 2, rename: gpu.small, policy: pack, interval: short, memory: share}}
  one: {mig: {fill: 1g.24gb-me}}
  elastic: {mig: {dynamic: true, profiles: [1g, 2g.20gb]}}
  plain: {}
nodes:
- name: a
  match: {nodeLabels: {pool: inference}, nodeNames: [gpu-*]}
  paused: true
  gpus:
  - {select: {index: [0-1, 4], uuid: GPU-1, product: "*H100*", memory: ">=80Gi"}, layout: inference, reset: when-idle}
  - {select: {index: 5}, layout: elastic, serve: dra}
resourceNames: [{product: "*RTX 4090*", name: nvidia.com/rtx4090}]
health: {xids: {"109": ignore}}
nvidia: {devicePluginConfig: time-slicing-config, migPartedConfig: custom-mig}
`, true},
		{"nothing", "", true},
		{"misspelt key", "layuots: {}\n", false},
		{"unknown key below", "nodes: [{gpus: [{layout: whole, served: dra}]}]\n", false},
		{"two ways to cut", "layouts: {a: {mig: {fill: 1g, dynamic: true}}}\n", false},
		{"no way to cut", "layouts: {a: {mig: {}}}\n", false},
		{"profile that cannot be", "layouts: {a: {mig: {instances: {3g40gb: 1}}}}\n", false},
		{"no instance", "layouts: {a: {mig: {instances: {3g.40gb: 0}}}}\n", false},
		{"slot without start", "layouts: {a: {mig: {slots: [3g.40gb]}}}\n", false},
		{"fill", "layouts: {a: {mig: {fill: most}}}\n", false},
		{"too many replicas", "layouts: {a: {timeSlicing: {replicas: 16385}}}\n", false},
		{"replicas as text", "layouts: {a: {timeSlicing: {replicas: four}}}\n", false},
		{"policy", "layouts: {a: {timeSlicing: {replicas: 4, policy: random}}}\n", false},
		{"no layout", "nodes: [{gpus: [{serve: dra}]}]\n", false},
		{"no GPUs", "nodes: [{name: a}]\n", false},
		{"serve", "nodes: [{gpus: [{layout: whole, serve: both}]}]\n", false},
		{"reset", "nodes: [{gpus: [{layout: whole, reset: always}]}]\n", false},
		{"xid", "health: {xids: {x: ignore}}\n", false},
		{"class of an xid", "health: {xids: {'1': skip}}\n", false},
		{"resource without a name", "resourceNames: [{product: '*'}]\n", false},
	} {
		text := []byte(sharingHead + tc.text)
		if _, err := config.Load("c.yaml", text); (err == nil) != tc.valid {
			t.Errorf("%s: Load says %v, want valid=%v", tc.name, err, tc.valid)
		}
		if err := s.Validate(instance(t, asJSON(t, text))); (err == nil) != tc.valid {
			t.Errorf("%s: the schema says %v, want valid=%v", tc.name, err, tc.valid)
		}
	}
	for _, path := range examples(t) {
		if err := s.Validate(instance(t, asJSON(t, read(t, path)))); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func asJSON(t *testing.T, text []byte) []byte {
	t.Helper()
	converted, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	return converted
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Each value of a field with a fixed set of them is one that Load takes, and no other is.
func TestListedValuesAreThoseOfLoad(t *testing.T) {
	for _, tc := range []struct{ path, text string }{
		{"layouts.*.timeSlicing.policy", "layouts: {a: {timeSlicing: {replicas: 2, policy: VALUE}}}\n"},
		{"layouts.*.timeSlicing.interval", "layouts: {a: {timeSlicing: {replicas: 2, interval: VALUE}}}\n"},
		{"layouts.*.timeSlicing.memory", "layouts: {a: {timeSlicing: {replicas: 2, memory: VALUE}}}\n"},
		{"nodes[].gpus[].serve", "nodes: [{gpus: [{layout: whole, serve: VALUE}]}]\n"},
		{"nodes[].gpus[].reset", "nodes: [{gpus: [{layout: whole, reset: VALUE}]}]\n"},
		{"health.xids", "health: {xids: {'1': VALUE}}\n"},
	} {
		for _, value := range fieldOf(t, tc.path).Enum {
			if _, err := config.Load("c.yaml", []byte(sharingHead+strings.ReplaceAll(tc.text, "VALUE", value))); err != nil {
				t.Errorf("%s is documented to take %s: %v", tc.path, value, err)
			}
		}
		_, err := config.Load("c.yaml", []byte(sharingHead+strings.ReplaceAll(tc.text, "VALUE", "other")))
		if err == nil || !strings.Contains(err.Error(), strings.Join(fieldOf(t, tc.path).Enum, ", ")) {
			t.Errorf("%s is documented to take %v; Load says %v", tc.path, fieldOf(t, tc.path).Enum, err)
		}
	}
}

func fieldOf(t *testing.T, path string) schema.Field {
	t.Helper()
	for _, f := range schema.ConfigFields {
		if f.Path == path {
			return f
		}
	}
	t.Fatalf("%s is not documented", path)
	return schema.Field{}
}

// What docs/ ships is what the types say now; `make generate` writes it.
func TestDocsAreGenerated(t *testing.T) {
	page := read(t, filepath.Join(docs, "configuration.md"))
	if want, err := schema.Replace(page, "fields of SharingConfig", schema.Table(schema.ConfigFields)); err != nil || !bytes.Equal(want, page) {
		t.Errorf("docs/configuration.md is not up to date: %v", err)
	}
	sharing, err := schema.Config("SharingConfig", reflect.TypeFor[config.Sharing](), schema.ConfigFields)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := sharing.Encode(); err != nil || !bytes.Equal(text, read(t, filepath.Join(docs, "config.schema.json"))) {
		t.Errorf("docs/config.schema.json is not up to date: %v", err)
	}
}
