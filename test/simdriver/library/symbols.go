// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package library

import (
	"bytes"
	_ "embed" // for oldSymbols
	"fmt"
	"regexp"
	"slices"
	"strings"
)

//go:embed old-symbols.txt
var oldSymbols string

var (
	declared    = regexp.MustCompile(`(?m)DECLDIR\s+(?:char\s*\*\s*)?(nvml\w+)\s*\(`)
	implemented = regexp.MustCompile(`(?m)^NVML0?\((nvml\w+)`)
)

// errorString is the one function that returns no nvmlReturn_t.
const errorString = "nvmlErrorString"

// declaredIn lists the functions that nvml.h declares.
func declaredIn(header []byte) []string { return names(declared, header) }

// Implemented lists the functions that the daemon answers.
func Implemented() []string {
	source, err := sources.ReadFile("c/nvml.c")
	if err != nil {
		return nil // it is embedded
	}
	return names(implemented, source)
}

func names(pattern *regexp.Regexp, text []byte) []string {
	var all []string
	for _, match := range pattern.FindAllSubmatch(text, -1) {
		all = append(all, string(match[1]))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// stubs is a C file in which every function of nvml.h that nobody implements answers NVML_ERROR_NOT_SUPPORTED. The arguments
// are left out, which the calling convention allows.
func stubs(header []byte) []byte {
	var b bytes.Buffer
	done := Implemented()
	for _, name := range declaredIn(header) {
		if name != errorString && !slices.Contains(done, name) {
			fmt.Fprintf(&b, "int %s(void) { return 3; }\n", name)
		}
	}
	return b.Bytes()
}

// oldNames lists what the library of an old driver exports.
func oldNames() []string {
	var all []string
	for line := range strings.Lines(oldSymbols) {
		if !strings.HasPrefix(line, "#") {
			all = append(all, strings.Fields(line)...)
		}
	}
	return all
}

// exportsOf is a linker script that exports the given functions alone. A name that nvml.h does not declare is an error.
func exportsOf(exported []string, header []byte) ([]byte, error) {
	known := declaredIn(header)
	for _, name := range exported {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("nvml.h declares no function %s", name)
		}
	}
	return fmt.Appendf(nil, "{ global: %s; local: *; };\n", strings.Join(exported, "; ")), nil
}
