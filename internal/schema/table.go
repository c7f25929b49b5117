// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package schema

import (
	"bytes"
	"fmt"
)

// Table is the fields for people, in Markdown.
func Table(fields []Field) []byte {
	var b bytes.Buffer
	b.WriteString("| field | values | default | what it does |\n|---|---|---|---|\n")
	for _, f := range fields {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Path, f.Values, f.Default, f.Doc)
	}
	return b.Bytes()
}

// end is the mark in a Markdown file after generated text.
const end = "<!-- end of generated -->\n"

// Replace puts text between the marks of that name in a page.
func Replace(page []byte, name string, text []byte) ([]byte, error) {
	begin := "<!-- generated: " + name + " -->\n"
	before, rest, found := bytes.Cut(page, []byte(begin))
	_, after, closed := bytes.Cut(rest, []byte(end))
	if !found || !closed {
		return nil, fmt.Errorf("want the lines %q and %q", begin, end)
	}
	return bytes.Join([][]byte{before, []byte(begin), text, []byte(end), after}, nil), nil
}
