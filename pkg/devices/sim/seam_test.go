// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The simulator judges the code above the seam, so it uses of package devices only what the seam declares.
func TestOnlyTheSeamIsUsed(t *testing.T) {
	declared := map[string]bool{}
	for _, path := range []string{"../driver.go", "../fields.go", "../code.go", "../platform.go"} {
		for name := range parseFile(t, path).Scope.Objects {
			declared[name] = true
		}
	}
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		file := parseFile(t, path)
		for _, imported := range file.Imports {
			if strings.Contains(imported.Path.Value, "/pkg/mig") {
				t.Errorf("%s imports %s", path, imported.Path.Value)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if name, ok := fromDevices(n); ok && !declared[name] {
				t.Errorf("%s uses devices.%s, which is not of the seam", path, name)
			}
			return true
		})
	}
	if !slices.Contains(paths, "session.go") || !declared["Driver"] || !declared["ErrInUse"] {
		t.Errorf("read %v and %v", paths, declared)
	}
}

func parseFile(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func fromDevices(n ast.Node) (string, bool) {
	selector, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	pkg, ok := selector.X.(*ast.Ident)
	return selector.Sel.Name, ok && pkg.Name == "devices"
}
