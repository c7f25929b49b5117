// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"gpuslice/internal/command"
)

// slices runs `dra-driver slices` and returns what a shell would see.
func slices(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	b := command.Binary{Name: "dra-driver", APIs: "dra", Commands: []command.Command{command.SlicesCommand()}}
	status = b.Main(t.Context(), append([]string{"slices"}, args...), command.Streams{Out: &stdout, Err: &stderr})
	return status, stdout.String(), stderr.String()
}

func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte("apiVersion: gpuslice.dev/v1alpha1\nkind: SharingConfig\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "--config=file:" + path
}

func TestSlicesShowsWhatTheConfigWillMake(t *testing.T) {
	config := configFile(t, "layouts: {it: {mig: {slots: [3g.40gb@4, 1g.10gb@0]}}}\nnodes: [{gpus: [{select: {index: [0]}, layout: it, serve: dra}]}]\n")
	status, out, errs := slices(t, "--hardware=sim:1xh100-sxm5-80gb,1xl40s", "--node-name=n1", config)
	want := []string{
		`slice 0: gpu-0-mig-1g10gb-19-0 type="mig" profile="1g.10gb" productName="NVIDIA H100 80GB HBM3" memory=9984Mi`,
		`slice 0: gpu-0-mig-3g40gb-9-4 type="mig" profile="3g.40gb" productName="NVIDIA H100 80GB HBM3" memory=40448Mi`,
		`slice 1: gpu-1 type="gpu" uuid="GPU-" productName="NVIDIA L40S" memory=46068Mi`, // unmanaged: offered as found
		`2 slices, 3 devices of driver gpu.nvidia.com, pool n1`,
	}
	got := strings.Split(strings.TrimSpace(out), "\n")
	for i, line := range got {
		if before, after, found := strings.Cut(line, `uuid="GPU-`); found {
			got[i] = before + `uuid="GPU-` + after[36:]
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || status != 0 || errs != "" {
		t.Errorf("status %d, %s\n%s", status, errs, diff)
	}
}

func TestSlicesPrintsObjectsOfTheAPI(t *testing.T) {
	for format, decode := range map[string]func([]byte, any) error{
		"json": func(text []byte, into any) error {
			d := json.NewDecoder(bytes.NewReader(text))
			d.DisallowUnknownFields()
			return d.Decode(into)
		},
		"yaml": func(text []byte, into any) error { return yaml.UnmarshalStrict(text, into) },
	} {
		status, out, errs := slices(t, "--hardware=sim:8xh100-sxm5-80gb", "-o", format)
		var list resourceapi.ResourceSliceList
		if err := decode([]byte(out), &list); err != nil || status != 0 || errs != "" {
			t.Fatalf("%s: status %d, %s, %v", format, status, errs, err)
		}
		if list.APIVersion != "resource.k8s.io/v1" || list.Kind != "ResourceSliceList" || len(list.Items) != 8 {
			t.Fatalf("%s: %s %s with %d items", format, list.APIVersion, list.Kind, len(list.Items))
		}
		for i, s := range list.Items {
			if s.Kind != "ResourceSlice" || s.Spec.Pool.Name != "node" || s.Spec.Pool.ResourceSliceCount != 8 || len(s.Spec.Devices) != 1 {
				t.Errorf("%s: item %d is %+v", format, i, s)
			}
		}
	}
}

func TestSlicesSaysWhyNot(t *testing.T) {
	impossible := configFile(t, "layouts: {it: {mig: {instances: {3g.40gb: 3}}}}\nnodes: [{gpus: [{layout: it, serve: dra}]}]\n")
	status, out, errs := slices(t, "--hardware=sim:1xh100-sxm5-80gb", impossible)
	if status != 0 || !strings.HasPrefix(out, "slice 0: gpu-0 type=") || !strings.HasPrefix(errs, "warning: Impossible gpu-0: ") {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
	elsewhere := configFile(t, "nodes: [{gpus: [{layout: whole}]}]\n")
	status, out, errs = slices(t, "--hardware=sim:1xh100-sxm5-80gb", elsewhere)
	if status != 0 || out != "1 slices, 0 devices of driver gpu.nvidia.com, pool node\n" || !strings.Contains(errs, "warning: NotServed gpu-0: serve is device-plugin") {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
	for _, c := range []struct {
		says string
		args []string
	}{
		{"nowhere", []string{"--hardware=sim:1xl4", configFile(t, "nodes: [{gpus: [{layout: nowhere}]}]\n")}},
		{"a100-9gb", []string{"--hardware=sim:1xa100-9gb"}},
		{"there is no file /nonexistent", []string{"--hardware=sim:1xl4", "--config=file:/nonexistent"}},
	} {
		status, out, errs := slices(t, c.args...)
		if status != 1 || out != "" || !strings.Contains(errs, c.says) {
			t.Errorf("%v: status %d\n%s%s\nwant an error with %q", c.args, status, out, errs, c.says)
		}
	}
}

// An instance that one compute instance does not fill is withheld, the others are offered.
func TestSlicesWithholdsWhatIsNotFilled(t *testing.T) {
	machine := machineFile(t, `gpus: [{model: h100-sxm5-80gb, instances: ["3g.40gb@4{1c}", "2g.20gb@2{}", 1g.10gb@0]}]`)
	status, out, errs := slices(t, machine, "--node-name=n1")
	if status != 0 || strings.Count(errs, "is withheld: ") != 2 || strings.Count(out, `type="mig"`) != 1 || !strings.Contains(out, `profile="1g.10gb"`) {
		t.Errorf("status %d, %s\n%s", status, errs, out)
	}
}
