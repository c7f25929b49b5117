// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

import (
	"strings"
	"testing"

	"gpuslice/test/cluster/node"
)

func TestRunRefuses(t *testing.T) {
	t.Setenv(node.EnvDir, "")
	tests := []struct {
		name, why string
		args      []string
		want      string
	}{
		{"nothing", "there is no default command", nil, "usage: "},
		{"unknown", "the answer lists what there is", []string{"down"}, `unknown command "down"; usage: `},
		{"exec without dashes", "flags of the command must not be ours", []string{"exec", "true"}, "usage: "},
		{"exec without command", "a node that runs nothing is up", []string{"exec", "--"}, "usage: "},
		{"smoke outside", "it must not touch another cluster", []string{"smoke"}, "GPUSLICE_CLUSTER_DIR is not set"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := run(t.Context(), tt.args); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err = %v; want %q: %s", err, tt.want, tt.why)
			}
		})
	}
}
