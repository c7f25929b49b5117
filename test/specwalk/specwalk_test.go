// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package specwalk_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpuslice/test/specwalk"
)

// The judge finds every way in which a spec names what is not there; the spec it accepts has all of them right.
func TestJudge(t *testing.T) {
	dir := t.TempDir()
	there, node := filepath.Join(dir, "there"), filepath.Join(dir, "nvidia0")
	if err := errors.Join(os.WriteFile(there, nil, 0o755), unix.Mknod(node, unix.S_IFCHR|0o666, int(unix.Mkdev(195, 0)))); err != nil {
		t.Fatal(err) // tests run as root
	}
	gone := filepath.Join(dir, "gone")
	const spec = `{"cdiVersion":"0.6.0","kind":"example.com/gpu","devices":[{"name":"a","containerEdits":{"deviceNodes":[%s]}}],
		"containerEdits":{"mounts":[{"hostPath":%q,"containerPath":"/x"}],"hooks":[{"hookName":"createContainer","path":%q,"args":["h",%q]}]}}`
	good := fmt.Sprintf(`{"path":"/dev/nvidia0","hostPath":%q,"type":"c","major":195,"minor":0},{"path":"/dev/nvidia-caps/nvidia-cap9","type":"c","major":235,"minor":9}`, node)
	for _, tt := range []struct{ name, node, mount, hook, arg, says string }{
		{"all there", good, there, there, "--socket=" + there, ""},
		{"path of the container", good, there, there, "--link=" + gone, ""},
		{"mount", good, gone, there, "x", "mount of /x"},
		{"hook", good, there, gone, "x", "hook createContainer"},
		{"argument", good, there, there, "--socket=" + gone, "argument of hook"},
		{"program beside the hook", good, there, there, "--ldconfig-path=@" + gone, "argument of hook"},
		{"node", strings.ReplaceAll(good, "nvidia0\",\"type", "nvidia7\",\"type"), there, there, "x", "no such file"},
		{"number", strings.ReplaceAll(good, `"minor":0`, `"minor":1`), there, there, "x", "not the character device 195:1"},
		{"file for a node", strings.ReplaceAll(good, node, there), there, there, "x", "not the character device"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			folder := t.TempDir()
			if err := os.WriteFile(filepath.Join(folder, "x.json"), fmt.Appendf(nil, spec, tt.node, tt.mount, tt.hook, tt.arg), 0o600); err != nil {
				t.Fatal(err)
			}
			for how, err := range map[string]error{"folder": specwalk.Directory(folder), "file": specwalk.File(filepath.Join(folder, "x.json"))} {
				if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
					t.Errorf("%s: %v, want %q", how, err, tt.says)
				}
			}
		})
	}
	if err := specwalk.Directory(t.TempDir()); err == nil {
		t.Error("an empty folder passes")
	}
	if err := specwalk.Text([]byte(`{"cdiVer`)); !errors.Is(err, specwalk.ErrPartial) {
		t.Errorf("half a file: %v", err)
	}
}
