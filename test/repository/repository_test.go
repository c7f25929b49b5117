// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package repository_test checks the rules that hold for the tree as a whole.
package repository_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// layers are the packages from the top down: a package imports only from layers below its own.
var layers = [][]string{
	{"cmd/"},
	{"internal/command"},
	{"internal/deviceplugin", "internal/dra", "internal/limits", "internal/report", "internal/usage", "internal/daemon", "internal/source", "internal/containers", "internal/cordon"},
	{"internal/features"},
	{"internal/agent"},
	{"internal/config/nvidia"},
	{"internal/config", "internal/state", "internal/kubelet", "internal/cgroup", "internal/schema", "internal/beat"},
	{"internal/config/strict"},
	{"pkg/cdi", "pkg/devices/devicestest", "pkg/devices/sim", "pkg/devices/nvml"},
	{"pkg/devices"},
	{"pkg/mig", "pkg/timeslice", "pkg/topology", "pkg/health", "pkg/regular"},
}

func layerOf(path string) int {
	best, length := -1, 0
	for i, names := range layers {
		for _, name := range names {
			if (path == strings.TrimSuffix(name, "/") || strings.HasPrefix(path, strings.TrimSuffix(name, "/")+"/")) && len(name) > length {
				best, length = i, len(name)
			}
		}
	}
	return best
}

type listed struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	all := []listed{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestImportsPointDown(t *testing.T) {
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, "gpuslice/")
		if strings.HasPrefix(path, "test/") || path == "gpuslice" {
			continue
		}
		from := layerOf(path)
		if from < 0 {
			t.Errorf("%s has no layer; add it to docs/architecture.md and to this test", path)
		}
		for _, i := range p.Imports {
			if imported, ours := strings.CutPrefix(i, "gpuslice/"); ours {
				checkImport(t, path, imported, from)
			}
		}
	}
}

func checkImport(t *testing.T, path, imported string, from int) {
	inside := strings.HasPrefix(imported, path+"/")
	if to := layerOf(imported); to <= from && !inside {
		t.Errorf("%s imports %s, which is not below it", path, imported)
	}
}

// What each kind of package may use of others' code; "" is the standard library alone.
func TestPurePackages(t *testing.T) {
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, "gpuslice/")
		if path == "internal/limits/hook" && slices.ContainsFunc(p.Imports, func(i string) bool { return strings.Contains(i, ".") || strings.HasPrefix(i, "gpuslice/") }) {
			t.Errorf("%s imports %v: it runs on the host in every start of a container", path, p.Imports)
		}
		if path != "pkg/mig" && path != "pkg/timeslice" && path != "pkg/topology" && path != "pkg/health" {
			continue
		}
		for _, i := range p.Imports {
			if path == "pkg/health" && i == "time" {
				continue // for values: TestHealthHasNoClock
			}
			if strings.Contains(i, ".") || slices.Contains([]string{"os", "net", "time", "log", "log/slog", "os/exec"}, i) {
				t.Errorf("%s imports %s: it is pure", path, i)
			}
		}
	}
}

// Labels follow from a view alone: whoever makes them reads nothing and tells nobody.
func TestLabelsArePure(t *testing.T) {
	for _, p := range packages(t) {
		if p.ImportPath != "gpuslice/internal/features" {
			continue
		}
		for _, i := range p.Imports {
			if slices.Contains([]string{"os", "net", "time", "log", "log/slog", "math/rand", "math/rand/v2", "gpuslice/pkg/regular"}, i) || strings.HasPrefix(i, "k8s.io/") && i != "k8s.io/apimachinery/pkg/util/validation" {
				t.Errorf("%s imports %s: it is pure", p.ImportPath, i)
			}
		}
	}
}

// What time it is comes into pkg/health as an argument: it takes from the standard library no more than what times are made of.
func TestHealthHasNoClock(t *testing.T) {
	use := regexp.MustCompile(`\btime\.([A-Z]\w*)`)
	values := []string{"Time", "Duration", "Second", "Minute", "Hour"}
	walk(t, func(path string) {
		if filepath.Dir(path) != filepath.Join(root, "pkg/health") || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range use.FindAllSubmatch(text, -1) {
			if !slices.Contains(values, string(m[1])) {
				t.Errorf("%s uses %s: it is pure", path, m[0])
			}
		}
	})
}

// What acts on the cluster is a process of its own (ADR 0015): it uses nothing of the node agent's, and the agent nothing of its.
func TestCordonAndAgentAreStrangers(t *testing.T) {
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, "gpuslice/")
		for _, i := range p.Imports {
			if path == "internal/cordon" && strings.HasPrefix(i, "gpuslice/") {
				t.Errorf("%s imports %s", path, i)
			}
			if i == "gpuslice/internal/cordon" && path != "internal/command" && !strings.HasPrefix(path, "test/") {
				t.Errorf("%s imports %s", path, i)
			}
		}
	}
}

func TestCGOStaysInOnePackage(t *testing.T) {
	cgo := []string{"github.com/NVIDIA/go-nvml", "github.com/NVIDIA/go-nvlib", "github.com/NVIDIA/nvidia-container-toolkit"}
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, "gpuslice/")
		if path == "pkg/devices/nvml" || strings.HasPrefix(path, "test/") {
			continue
		}
		for _, i := range p.Imports {
			for _, module := range cgo {
				if i == module || strings.HasPrefix(i, module+"/") {
					t.Errorf("%s imports %s", path, i)
				}
			}
			if i == "os/exec" {
				t.Errorf("%s imports os/exec", path)
			}
			if strings.HasPrefix(i, "k8s.io/kubernetes") {
				t.Errorf("%s imports %s", path, i)
			}
		}
	}
}

// walk calls fn for every file of the tree that belongs to the project.
func walk(t *testing.T, fn func(path string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", "bin", ".out"}, d.Name()) {
			return filepath.SkipDir
		}
		if !d.IsDir() {
			fn(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestHeadersAndSizes(t *testing.T) {
	header := "SPDX-License-Identifier: Apache-2.0\n"
	walk(t, func(path string) {
		ext := filepath.Ext(path)
		if ext != ".go" && ext != ".sh" && ext != ".c" && ext != ".h" && filepath.Base(path) != "Makefile" {
			return
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		start := string(text[:min(len(text), 300)])
		if !strings.Contains(start, header) || !strings.Contains(start, "SPDX-FileCopyrightText: The GPUSlice Authors\n") {
			t.Errorf("%s: no SPDX header", path)
		}
		if n := bytes.Count(text, []byte("\n")); ext == ".go" && n > 300 && !strings.HasSuffix(path, "_gen.go") && !strings.HasSuffix(path, "_test.go") {
			t.Errorf("%s has %d lines, at most 300", path, n)
		}
	})
}

func TestFunctionsAreShortAndPackagesDocumented(t *testing.T) {
	documented := map[string]int{}
	walk(t, func(path string) {
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_gen.go") {
			return
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Comments) > 1 && strings.Contains(f.Comments[1].List[0].Text, "go:build ignore") {
			return // a generator beside the package, not part of it
		}
		dir := filepath.Dir(path)
		if !strings.HasSuffix(path, "_test.go") {
			documented[dir] += 0
			if f.Doc != nil {
				documented[dir]++
			}
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if ok && fset.Position(fn.End()).Line-fset.Position(fn.Pos()).Line > 60 {
					t.Errorf("%s: %s is longer than 60 lines", path, fn.Name.Name)
				}
			}
		}
	})
	for dir, n := range documented {
		if n != 1 {
			t.Errorf("%s has %d package comments, want one", dir, n)
		}
	}
}

func TestNoVagueNames(t *testing.T) {
	vague := regexp.MustCompile(`^(utils?|helpers?|common|types|misc|interface)(_test)?\.go$`)
	walk(t, func(path string) {
		if vague.MatchString(filepath.Base(path)) {
			t.Errorf("%s: name the idea instead", path)
		}
	})
}

// `make test` must reach every module that has tests; modules that only pin programs have none.
func TestMakeTestRunsEveryModule(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^MODULES := (.*)$`).FindSubmatch(makefile)
	if m == nil {
		t.Fatal("Makefile has no MODULES line")
	}
	run := strings.Fields(string(m[1]))
	walk(t, func(path string) {
		if filepath.Base(path) != "go.mod" {
			return
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		tests, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if dir != "." && len(tests) > 0 && !slices.Contains(run, dir) {
			t.Errorf("%s has tests and make test does not run them", dir)
		}
	})
	if !slices.Contains(run, ".") {
		t.Error("make test leaves the main module out")
	}
}

// A test that is skipped says so in test/skips.txt, with the reason; nothing else may skip.
func TestSkipsAreListed(t *testing.T) {
	listed := map[string]bool{}
	text, err := os.ReadFile(filepath.Join(root, "test/skips.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if path, reason, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && reason != "" && !strings.HasPrefix(line, "#") {
			listed[path] = false
		}
	}
	skip := regexp.MustCompile(`\b(t|b|f|tb)\.Skip(f|Now)?\(`)
	walk(t, func(path string) {
		if !strings.HasSuffix(path, ".go") {
			return
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		if name == "test/repository/repository_test.go" || !skip.Match(text) {
			return
		}
		if _, ok := listed[name]; !ok {
			t.Errorf("%s skips; list it in test/skips.txt with the reason", name)
		}
		listed[name] = true
	})
	for path, used := range listed {
		if !used {
			t.Errorf("test/skips.txt lists %s, which skips nothing", path)
		}
	}
}
