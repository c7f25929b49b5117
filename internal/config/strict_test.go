// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"gpuslice/internal/config"
)

// A value of another type is named with its own field, also on a line of many, and hides no other mistake nor invents one.
func TestTypes(t *testing.T) {
	const replicas, fill, paused, rename = "layouts.a.timeSlicing.replicas", "layouts.a.mig.fill", "nodes[0].paused", "layouts.a.timeSlicing.rename"
	for field, form := range map[string]string{
		replicas:                          "layouts: {a: {timeSlicing: {policy: pack, replicas: %s, interval: short}}}\n",
		"layouts.a.mig.instances.1g.10gb": "layouts: {a: {mig: {instances: {3g.40gb: 1, 1g.10gb: %s}}}}\n",
	} {
		for value, want := range map[string]string{
			"1.9": "1.9 is not a whole decimal number", "4.0": "4.0 is not a whole", "1e1": "1e1 is not a whole", ".inf": ".inf is not a whole",
			"010": "010 is not a whole", "0x10": "0x10 is not a whole", "1_0": "1_0 is not a whole", "true": "true is not a whole",
			`"4"`: `"4" is text; write 4 without quotes`, "four": `"four" is not a number`, `"1.9"`: `"1.9" is not a number`,
			"[4]": "a list is not a number", "{b: 4}": "a mapping is not a number", "!!int 4": "tags are not supported",
			"99999999999999999999": "99999999999999999999 is too large", "9223372036854775808": "too large",
			"0": "0 ", "-1": "-1 ", "16385": "16385 ",
		} {
			checkIssues(t, value, head+fmt.Sprintf(form, value), []string{"3 " + field + ": " + want})
		}
	}
	for _, tc := range []struct{ form, value, want string }{
		{"nodes: [{name: a, paused: %s, gpus: [{layout: whole}]}]\n", "yes", paused + `: "yes" is not true or false`},
		{"nodes: [{name: a, paused: %s, gpus: [{layout: whole}]}]\n", `"true"`, paused + `: "true" is text; write true without quotes`},
		{"nodes: [{name: a, paused: %s, gpus: [{layout: whole}]}]\n", "1", paused + ": 1 is not true or false"},
		{"layouts: {a: {mig: {dynamic: %s, profiles: [1g]}}}\n", "[true]", "layouts.a.mig.dynamic: a list is not true or false"},
		{"layouts: {a: {mig: {fill: %s}}}\n", "[1g]", fill + ": a list is not text"},
		{"layouts: {a: {mig: {slots: %s}}}\n", "3g.40gb@4", "layouts.a.mig.slots: \"3g.40gb@4\" is not a list"},
		{"layouts: {a: {mig: {slots: [%s]}}}\n", "~", "layouts.a.mig.slots[0]: has no value"},
		{"layouts: {a: {mig: {instances: {1g.10gb: %s}}}}\n", "~", "layouts.a.mig.instances.1g.10gb: has no value"},
		{"layouts: {a: {timeSlicing: {replicas: 2, rename: %s}}}\n", "4", rename + ": 4 is not true, false or"},
		{"layouts: {a: {timeSlicing: {replicas: 2, rename: %s}}}\n", "no", rename + `: "no" is text; write true or false`},
		{"layouts: {a: {timeSlicing: {replicas: 2, rename: %s}}}\n", `"true"`, rename + `: "true" is text`},
		{"layouts: {a: {timeSlicing: {replicas: 2, rename: %s}}}\n", `""`, rename + `: "" is not true, false or`},
		{"nodes: [{match: {nodeNames: %s}, gpus: [{layout: whole}]}]\n", "{a: b}", "nodes[0].match.nodeNames: a mapping is not a value or a list"},
		{"nodes: [{match: {nodeNames: [%s]}, gpus: [{layout: whole}]}]\n", "[a]", "nodes[0].match.nodeNames[0]: a list is not text"},
		{"nodes: [{match: {nodeLabels: {pool: %s}}, gpus: [{layout: whole}]}]\n", "~", "nodes[0].match.nodeLabels.pool: has no value"},
		{"layouts: %s\nnodes: [{gpus: [{layout: b}]}]\n", "[a]", "layouts: a list is not a mapping"},
		{"layouts: {a: {mig: {fill: 1g}, %s: {timeSlicing: {replicas: 2}}}}\n", "mig", "layouts.a.mig: already defined on line 3"},
		{"layouts: {%s: {mig: {fill: 1g}}}\n", "<<", "layouts: merge keys"},
		{"layouts: {%s: {mig: {fill: 1g}}}\n", `""`, "layouts: a key is empty"},
		{"layouts: {%s: {mig: {fill: 1g}}}\n", "? [a]", "layouts: a key is not plain text"},
	} {
		checkIssues(t, tc.want, head+fmt.Sprintf(tc.form, tc.value), []string{"3 " + tc.want})
	}
	checkIssues(t, "several on one line", head+"layouts: {a: {timeSlicing: {replicas: 1.5, policy: spraed}}, b: {mig: {instances: {1g.10gb: x}}}}\n",
		[]string{"3 layouts.a.timeSlicing.policy: spread", "3 " + replicas + ": 1.5 is not", "3 layouts.b.mig.instances.1g.10gb: \"x\" is not a number"})
	checkIssues(t, "keys twice", head+"kind: x\nlayouts:\n  a: {}\n  b: {}\n  a: {mig: {fill: 1g}}\n",
		[]string{"3 kind: already defined on line 2", "7 layouts.a: already defined on line 5"})
}

// A selector that is there and empty would fit everything, which its author hardly meant.
func TestEmptySelectors(t *testing.T) {
	for rule, fields := range map[string][]string{
		"match: %s, gpus: [{layout: whole}]":               {"match", "{}", "", "~"},
		"match: {nodeNames: %s}, gpus: [{layout: whole}]":  {"match.nodeNames", "[]", "", `""`, "~"},
		"match: {nodeLabels: %s}, gpus: [{layout: whole}]": {"match.nodeLabels", "{}", "", "~"},
		"gpus: [{select: %s, layout: whole}]":              {"gpus[0].select", "{}", "", "~"},
		"gpus: [{select: {index: %s}, layout: whole}]":     {"gpus[0].select.index", "[]", "", `""`, "~"},
		"gpus: [{select: {uuid: %s}, layout: whole}]":      {"gpus[0].select.uuid", "[]", "", `""`, "~"},
		"gpus: [{select: {product: %s}, layout: whole}]":   {"gpus[0].select.product", `""`, "", "~"},
		"gpus: [{select: {memory: %s}, layout: whole}]":    {"gpus[0].select.memory", `""`, "", "~"},
	} {
		for _, value := range fields[1:] {
			checkIssues(t, rule+value, head+"nodes: [{"+fmt.Sprintf(rule, value)+"}]\n",
				[]string{"3 nodes[0]." + fields[0] + ": is empty and would fit everything; leave it out to mean that"})
		}
	}
	if _, err := config.Load("f", []byte(head+"nodes: [{match: {nodeLabels: {pool: ''}}, gpus: [{layout: whole}]}]\n")); err != nil {
		t.Errorf("a label may be empty: %v", err)
	}
}

// No GPU has more than a handful of slices and instances; what is beyond is a slip, and a sum of it would overflow.
func TestBounds(t *testing.T) {
	const mig = "layouts: {a: {mig: %s}}\n"
	for _, tc := range []struct{ value, want string }{
		{"{instances: {1g.10gb: 64}}", ""},
		{"{instances: {1g.10gb: 65}}", "instances.1g.10gb: 65 instances, want 1 to 64"},
		{"{instances: {1g.10gb: 9223372036854775807}}", "instances.1g.10gb: 9223372036854775807 instances, want 1 to 64"},
		{"{instances: {65g.10gb: 1}}", "instances.65g.10gb: \"65g.10gb\" has 65 slices, want 1 to 64"},
		{"{fill: 64g}", ""},
		{"{fill: 65g}", "fill: \"65g\" has 65 slices, want 1 to 64"},
		{"{fill: 99999999999999999999g}", "fill: has 99999999999999999999 slices, want 1 to 64"},
		{"{fill: 99999999999999999999g.10gb}", "fill: has 99999999999999999999 slices, want 1 to 64"},
		{"{fill: 1g.99999999999999999999gb}", "fill: is not a slice count"},
		{"{slots: [1g.10gb@63]}", ""},
		{"{slots: [1g.10gb@64]}", "slots[0]: \"1g.10gb@64\" starts at 64, want 0 to 63"},
		{"{slots: [1g.10gb@99999999999999999999]}", "slots[0]: starts at 99999999999999999999, want 0 to 63"},
		{"{slots: [99999999999999999999g.10gb@0]}", "slots[0]: has 99999999999999999999 slices"},
		{"{dynamic: true, profiles: [65g]}", "profiles[0]: has 65 slices"},
		{"{dynamic: true, profiles: [balanced]}", "profiles[0]: \"balanced\" is not a slice count such as 1g or a profile"},
	} {
		text := head + fmt.Sprintf(mig, tc.value)
		if tc.want != "" {
			checkIssues(t, tc.value, text, []string{"3 layouts.a.mig." + tc.want})
		} else if _, err := config.Load("f", []byte(text)); err != nil {
			t.Errorf("%s: %v", tc.value, err)
		}
	}
	checkIssues(t, "xid", head+"health: {xids: {'99999999999999999999': ignore}}\n", []string{"3 health.xids.99999999999999999999: not an XID"})
}

// A name that Kubernetes does not take would be refused only when the plugin registers.
func TestResourceNames(t *testing.T) {
	long := strings.Repeat("a", 64)
	domain := strings.Repeat("a.", 122) // 244 bytes: with "requests." before it, a domain of 253
	for _, tc := range []struct {
		name string
		fine bool
	}{
		{"gpu.shared", true},
		{"example.com/gpu", true},
		{"example.com/GPU_1.x-y", true},
		{long[1:], true},
		{domain[:243] + "/x", true},
		{long, false},
		{"example.com/" + long, false},
		{domain + "ab/x", false},
		{domain[:242] + "bbb/x", false},
		{"a..b/x", false},
		{"-a.b/x", false},
		{"a.b-/x", false},
		{"Example.com/x", false},
		{"/x", false},
		{"a.b/", false},
		{"a.b/c/d", false},
		{"a.b/-x", false},
		{"a.b/x.", false},
		{"a.b/x y", false},
		{"kubernetes.io/gpu", false},
		{"x.kubernetes.io/gpu", false},
		{"requests.nvidia.com/gpu", false},
	} {
		for field, form := range map[string]string{
			"layouts.a.timeSlicing.rename": "layouts: {a: {timeSlicing: {replicas: 2, rename: %q}}}\n",
			"resourceNames[0].name":        "resourceNames: [{product: '*', name: %q}]\n",
		} {
			text := head + fmt.Sprintf(form, tc.name)
			if needsDomain := strings.HasPrefix(field, "resource") && !strings.Contains(tc.name, "/"); !tc.fine || needsDomain {
				checkIssues(t, tc.name, text, []string{"3 " + field + ": a resource name such as"})
			} else if _, err := config.Load("f", []byte(text)); err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
		}
	}
	checkIssues(t, "no room for the suffix", head+"layouts: {a: {timeSlicing: {replicas: 2, rename: true}}}\nresourceNames: [{product: '*', name: a.b/"+long[:60]+"}]\n",
		[]string{"4 resourceNames[0].name: too long for a layout with rename: true"})
}

// Messages stand in logs and in a node's status: whatever a config holds, they stay short.
func TestMessagesAreShort(t *testing.T) {
	long := strings.Repeat("é", 50000)
	layouts := ""
	for i := range 40 {
		layouts += fmt.Sprintf("  layout-%02d-%s: {}\n", i, long[:200])
	}
	for _, text := range []string{
		"apiVersion: " + long + "\nkind: " + long + "\n",
		head + long + ": 1\n",
		head + "layouts: {" + long + ": {mig: {fill: " + long + "}}, b: {mig: {instances: {" + long + ": " + long + "}, profiles: [a]}}}\n",
		head + "layouts: {a: {mig: {slots: [" + long + ", 1g.10gb@" + strings.Repeat("9", 50000) + "]}}}\n",
		head + "layouts: {a: {timeSlicing: {replicas: " + long + ", rename: " + long + ", policy: " + long + "}}}\n",
		head + "layouts: {a: {timeSlicing: {replicas: " + strings.Repeat("9", 50000) + "}}}\n",
		head + "layouts: {a: {timeSlicing: {replicas: !" + strings.Repeat("a", 50000) + " 1}}}\n",
		head + "layouts:\n" + layouts + "nodes: [{gpus: [{layout: " + long + "}]}]\n",
		head + "nodes: [{match: {nodeNames: '[" + long + "'}, gpus: [{layout: whole, select: {index: " + long + ", memory: " + long + "}}]}]\n",
		head + "nodes: [{match: {nodeLabels: {nvidia.com/gpu." + long + ": a}}, gpus: [{layout: whole}]}]\n",
		head + "nodes: [{name: " + long + ", gpus: [{layout: whole}]}, {name: " + long + ", gpus: [{layout: whole}]}]\n",
		head + "resourceNames: [{product: '[" + long + "', name: " + long + "}]\n",
		head + "health: {xids: {" + long + ": " + long + "}}\n",
		head + "layouts: *" + strings.Repeat("a", 50000) + "\n",
	} {
		_, err := config.Load("f", []byte(text))
		var issues config.Issues
		if !errors.As(err, &issues) {
			t.Errorf("%.80q: %v, want issues", text, err)
		}
		for _, i := range issues {
			if len(i.Field) > 300 || len(i.Message) > 1600 || !utf8.ValidString(i.Error()) || strings.Contains(i.Message, long[:80]) {
				t.Errorf("%.80q: field of %d bytes, message of %d: %.200s", text, len(i.Field), len(i.Message), i.Message)
			}
		}
	}
	names := []string{}
	for i := range 40 {
		names = append(names, fmt.Sprintf("l%02d: {}", i))
	}
	checkIssues(t, "many names", head+"layouts: {"+strings.Join(names, ", ")+"}\nnodes: [{gpus: [{layout: other}]}]\n",
		[]string{`4 nodes[0].gpus[0].layout: "other" is not one of l00, l01, l02, l03, l04, l05, l06, l07, l08, l09, l10, l11, l12, l13, l14, l15 and 28 more`})
}

func TestIsEmpty(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, " \n": true, "# nothing yet\n": true, "---\n": true, "---\n# nothing\n": true, "~\n": true,
		"{}": false, "a: [": false, "- a": false, head: false, "---\n---\n": false, strings.Repeat("\n", config.MaxBytes+1): false,
	} {
		if got := config.IsEmpty([]byte(text)); got != want {
			t.Errorf("%.20q: %v, want %v", text, got, want)
		}
	}
}
