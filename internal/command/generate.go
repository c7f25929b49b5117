// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build ignore

// Writes the JSON Schemas and the tables in docs/.
package main

import (
	"log"
	"os"
	"path/filepath"
	"reflect"

	"gpuslice/internal/command"
	"gpuslice/internal/config"
	"gpuslice/internal/report"
	"gpuslice/internal/schema"
	"gpuslice/internal/usage"
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
	tables("configuration.md", map[string][]byte{"fields of SharingConfig": schema.Table(schema.ConfigFields)})
	tables("operations.md", map[string][]byte{
		"problems": report.ReasonTable(), "events of health": report.StateTable(report.HealthDocs()), "events of MIG configs": report.StateTable(report.States()),
	})
	tables("metrics.md", map[string][]byte{"metrics": usage.Table()})
}

// tables writes tables into a page, by name.
func tables(page string, all map[string][]byte) {
	path := filepath.Join(docs, page)
	text, err := os.ReadFile(path)
	check(err)
	for name, table := range all {
		text, err = schema.Replace(text, name, table)
		check(err)
	}
	check(os.WriteFile(path, text, 0o644))
}

// check ends the program: a generator has nobody else to tell.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
