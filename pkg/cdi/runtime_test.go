// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package cdi_test

import (
	"strings"
	"testing"

	"gpuslice/pkg/cdi"
)

// The version of a runtime tells whether it injects by CDI; where a config decides, the lines to set are named, and where nothing
// helps, the way without CDI.
func TestSupportOf(t *testing.T) {
	const envvar = "--device-list-strategy=envvar"
	for _, tt := range []struct {
		version string
		want    cdi.Support
		says    []string
	}{
		{"containerd://2.4.2", cdi.Supported, nil},
		{"containerd://2.0.0", cdi.Supported, nil},
		{"containerd://v2.0.0-rc.1+unknown", cdi.Supported, nil},
		{"containerd://10.0.0", cdi.Supported, nil},
		{"containerd://1.7.27", cdi.Unknown, []string{`[plugins."io.containerd.grpc.v1.cri"]`, "enable_cdi = true", `cdi_spec_dirs = ["/etc/cdi", "/run/specs"]`, envvar}},
		{"containerd://1.7.0~ds1", cdi.Unknown, []string{"enable_cdi"}},
		{"containerd://1.6.33", cdi.Unsupported, []string{"containerd 2", envvar}},
		{"containerd://1.10.0", cdi.Unsupported, []string{envvar}},
		{"containerd://0.9", cdi.Unsupported, []string{envvar}},
		{"cri-o://1.33.1", cdi.Supported, nil},
		{"cri-o://1.28.0", cdi.Supported, nil},
		{"cri-o://2.0.0", cdi.Supported, nil},
		{"cri-o://1.27.9", cdi.Unsupported, []string{"CRI-O 1.28", envvar}},
		{"docker://27.3.1", cdi.Unsupported, []string{"docker://27.3.1", envvar}},
		{"docker://", cdi.Unsupported, []string{envvar}},
		{"containerd://", cdi.Unknown, []string{`"containerd://"`}},
		{"containerd://two.four", cdi.Unknown, []string{"not known"}},
		{"containerd://-2.4", cdi.Unknown, []string{"not known"}},
		{"containerd://2", cdi.Unknown, []string{"not known"}},
		{"containerd://99999999999999999999.1", cdi.Unknown, []string{"not known"}},
		{"containerd://2.x", cdi.Unknown, []string{"not known"}},
		{"rkt://2.4.2", cdi.Unknown, []string{"not known"}},
		{"://", cdi.Unknown, []string{"not known"}},
		{"", cdi.Unknown, []string{"not known"}},
		{"\x00containerd", cdi.Unknown, []string{"not known"}},
	} {
		got, todo := cdi.SupportOf(tt.version, "/run/specs")
		if got != tt.want || (todo == "") != (tt.says == nil) {
			t.Errorf("%q: %v, %q; want %v", tt.version, got, todo, tt.want)
		}
		for _, word := range tt.says {
			if !strings.Contains(todo, word) {
				t.Errorf("%q: %q is not in %q", tt.version, word, todo)
			}
		}
	}
}
