// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package schema

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// Comments reads what stands above or behind the fields of the structs in Go files, by "Type.Field".
func Comments(paths ...string) (map[string]string, error) {
	all := map[string]string{}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("read comments: %w", err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					fieldComments(all, spec.Name.Name, s)
				}
			}
			return true
		})
	}
	return all, nil
}

func fieldComments(all map[string]string, typeName string, s *ast.StructType) {
	for _, f := range s.Fields.List {
		text := f.Doc.Text()
		if text == "" {
			text = f.Comment.Text()
		}
		for _, name := range f.Names {
			all[typeName+"."+name.Name] = strings.Join(strings.Fields(text), " ")
		}
	}
}
