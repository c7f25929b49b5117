// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build ignore

// Writes the JSON Schemas and the reference table in docs/.
package main

import (
	"log"
	"os"
	"path/filepath"
	"reflect"

	"gpuslice/internal/command"
	"gpuslice/internal/config"
	"gpuslice/internal/schema"
)

const docs = "../../docs"

func main() {
	comments, err := schema.Comments("plan.go", "status.go", "inventory.go", "../agent/problem.go")
	check(err)
	sharing, err := schema.Config("SharingConfig", reflect.TypeFor[config.Sharing](), schema.ConfigFields)
	check(err)
	for name, s := range map[string]schema.Schema{
		"plan.schema.json":   schema.Document("plan -o json", reflect.TypeFor[command.PlanDocument](), comments),
		"status.schema.json": schema.Document("/status", reflect.TypeFor[command.Status](), comments),
		"config.schema.json": sharing,
	} {
		text, err := s.Encode()
		check(err)
		check(os.WriteFile(filepath.Join(docs, name), text, 0o644))
	}
	path := filepath.Join(docs, "configuration.md")
	page, err := os.ReadFile(path)
	check(err)
	page, err = schema.Replace(page, schema.Table(schema.ConfigFields))
	check(err)
	check(os.WriteFile(path, page, 0o644))
}

// check ends the program: a generator has nobody else to tell.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
