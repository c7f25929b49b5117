// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package report

import (
	"bytes"
	"fmt"
)

// ReasonTable is the problems for docs/operations.md.
func ReasonTable() []byte {
	var b bytes.Buffer
	b.WriteString("| reason | what it means | what to do |\n|---|---|---|\n")
	for _, d := range Reasons() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", d.Reason, d.Means, d.Fix)
	}
	return b.Bytes()
}

// StateTable is Events for docs/operations.md.
func StateTable(docs []StateDoc) []byte {
	var b bytes.Buffer
	b.WriteString("| Event | what it means |\n|---|---|\n")
	for _, d := range docs {
		fmt.Fprintf(&b, "| `%s` | %s |\n", d.Reason, d.Means)
	}
	return b.Bytes()
}
