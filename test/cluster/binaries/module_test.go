// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package binaries

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRequiredVersion(t *testing.T) {
	tests := []struct{ name, why, goMod, want string }{
		{"single line", "the form written by hand", "module x\n\nrequire k8s.io/kubernetes v1.37.2\n", "v1.37.2"},
		{"block", "the form written by go mod tidy", "require (\n\ta.b/c v0.1.0\n\tk8s.io/kubernetes v1.34.4 // indirect\n)\n", "v1.34.4"},
		{"replace is no requirement", "it has four fields", "replace k8s.io/kubernetes => k8s.io/kubernetes v1.0.0\n", ""},
		{"longer path", "a prefix is another module", "require k8s.io/kubernetes/extra v1.0.0\n", ""},
		{"comment", "what is commented out is not required", "// require k8s.io/kubernetes v1.0.0\n", ""},
		{"empty", "nothing is required", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := requiredVersion(tt.goMod, "k8s.io/kubernetes")
			if got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("requiredVersion = %q, %v; want %q: %s", got, err, tt.want, tt.why)
			}
		})
	}
}

func TestBuildArgs(t *testing.T) {
	modules := Modules("")
	kubernetes, etcd := modules[len(modules)-1], modules[0]
	got := kubernetes.buildArgs([]string{"kube-scheduler", "kubelet"}, "v1.34.4", "/out")
	want := []string{
		"build", "-trimpath", "-ldflags", "-s -w -X k8s.io/component-base/version.gitVersion=v1.34.4" +
			" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=34",
		"-o", "/out/", "k8s.io/kubernetes/cmd/kube-scheduler", "k8s.io/kubernetes/cmd/kubelet",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kubelet (-want +got):\n%s", diff)
	}
	want = []string{"build", "-trimpath", "-ldflags", "-s -w", "-o", "/out/etcd", "go.etcd.io/etcd/server/v3"}
	if diff := cmp.Diff(want, etcd.buildArgs([]string{"etcd"}, "v3.6.16", "/out")); diff != "" {
		t.Errorf("etcd (-want +got):\n%s", diff)
	}
}

// The go command names the programs of one build after their packages.
func TestProgramsOfOneBuildAreNamedByTheirPackages(t *testing.T) {
	for _, m := range Modules("") {
		for name, pkg := range m.Programs {
			if len(m.Programs) > 1 && path.Base(pkg) != name {
				t.Errorf("%s: %s would be built as %s", m.Folder, name, path.Base(pkg))
			}
		}
	}
}

// Every release is cached beside the others under one name, and only the Kubernetes folder depends on it.
func TestReleaseChoosesFolder(t *testing.T) {
	for i, other := range Modules("1.34.4") {
		if other.Path != "k8s.io/kubernetes" {
			if diff := cmp.Diff(Modules("")[i], other); diff != "" {
				t.Errorf("%s depends on the release:\n%s", other.Path, diff)
			}
			continue
		}
		if other.Folder != "kubernetes-1.34.4" {
			t.Errorf("folder = %q", other.Folder)
		}
		if got := other.cacheDir("/cache", "v1.34.4"); got != "/cache/kubernetes-v1.34.4" {
			t.Errorf("cache folder = %q", got)
		}
	}
}

// The go.mod files in the repository are readable, and what is in the cache is not built again.
func TestEnsureTakesWhatIsCached(t *testing.T) {
	cache := t.TempDir()
	modules := Modules("")
	want := map[string]string{}
	for _, m := range modules {
		goMod, err := os.ReadFile(filepath.Join("..", "modules", m.Folder, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		version, err := requiredVersion(string(goMod), m.Path)
		if err != nil {
			t.Fatal(err)
		}
		for _, program := range m.Names() {
			want[program] = filepath.Join(m.cacheDir(cache, version), program)
			if err := os.MkdirAll(filepath.Dir(want[program]), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(want[program], nil, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	modulesDir, err := ModulesDir()
	if err != nil {
		t.Fatal(err)
	}
	var progress bytes.Buffer
	got, err := Ensure(t.Context(), modulesDir, cache, modules, &progress)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	if progress.Len() != 0 {
		t.Errorf("something was built:\n%s", progress.String())
	}
}

func TestEnsureBuildsAtomically(t *testing.T) {
	cache, modulesDir := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(modulesDir, "tiny", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(modulesDir, "tiny"), 0o755); err != nil {
		t.Fatal(err)
	}
	// The go command never resolves the requirement, because the package lies in the main module.
	write("go.mod", "module example.com/tiny\n\ngo 1.26.0\n\nrequire example.com/pinned v1.2.3\n\nreplace example.com/pinned => ./pinned\n")
	if err := os.Mkdir(filepath.Join(modulesDir, "tiny", "pinned"), 0o755); err != nil {
		t.Fatal(err)
	}
	write("pinned/go.mod", "module example.com/pinned\n")
	write("main.go", "package main\n\nfunc main() { syntax error }\n")
	module := Module{Folder: "tiny", Path: "example.com/pinned", Programs: map[string]string{"tiny": "example.com/tiny"}}
	if _, err := Ensure(t.Context(), modulesDir, cache, []Module{module}, t.Output()); err == nil || !strings.Contains(err.Error(), "build tiny v1.2.3") {
		t.Fatalf("broken program: err = %v", err)
	}
	left, err := os.ReadDir(filepath.Join(cache, "tiny-v1.2.3"))
	if err != nil || len(left) != 0 {
		t.Fatalf("a failed build left %v, %v", left, err)
	}
	write("main.go", "package main\n\nfunc main() {}\n")
	paths, err := Ensure(t.Context(), modulesDir, cache, []Module{module}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(paths["tiny"]); err != nil || info.Mode()&0o111 == 0 {
		t.Errorf("built program: %v, %v", info, err)
	}
}
