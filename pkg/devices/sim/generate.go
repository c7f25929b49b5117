// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build ignore

// Writes the generated model tables beside mig-profiles.json.
package main

import (
	"log"
	"os"

	"gpuslice/pkg/devices/sim/internal/generate"
)

func main() {
	tables, err := os.ReadFile("mig-profiles.json")
	if err != nil {
		log.Fatal(err)
	}
	files, err := generate.Files(tables)
	if err != nil {
		log.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
