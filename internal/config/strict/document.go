// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package strict

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Document is a text together with where its fields stand and what is wrong with them.
type Document struct {
	// Empty says that the text has no content, such as one of comments only.
	Empty bool

	file     string
	format   reflect.Type
	lines    map[string]int // field path -> line
	issues   Issues
	warnings Issues
	// oversize says that something is too large to be decoded at all.
	oversize bool
}

// Add notes what is wrong with a field, unless something is noted already: a value that is no number has no range either.
func (d *Document) Add(field, format string, args ...any) {
	d.addAt(d.lineOf(field), field, format, args...)
}

// AddFault notes a fault, if there is one.
func (d *Document) AddFault(field, fault string) {
	if fault != "" {
		d.Add(field, "%s", fault)
	}
}

// Enum notes a value that is not one of a fixed set; an absent one is.
func (d *Document) Enum(field, value string, valid []string) {
	if value != "" && !slices.Contains(valid, value) {
		d.Add(field, "%s", OneOf(value, valid))
	}
}

// Warn notes what is right and has another effect than its author may expect.
func (d *Document) Warn(field, format string, args ...any) {
	if len(d.warnings) < maxIssues {
		d.warnings = append(d.warnings, Issue{File: d.file, Line: d.lineOf(field), Field: field, Message: fmt.Sprintf(format, args...)})
	}
}

// lineOf is where a field stands; an absent one is reported where its parent stands.
func (d *Document) lineOf(field string) int {
	line, path := d.lines[field], field
	for line == 0 && path != "" {
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
		line = d.lines[path]
	}
	return line
}

func (d *Document) addAt(line int, field, format string, args ...any) {
	if !d.Full() && !d.HasIssue(field) {
		d.issues = append(d.issues, Issue{File: d.file, Line: line, Field: field, Message: fmt.Sprintf(format, args...)})
	}
}

// Has says that the text has a field.
func (d *Document) Has(field string) bool { return d.lines[field] > 0 }

// HasIssue says that a field is known to be wrong.
func (d *Document) HasIssue(field string) bool {
	return slices.ContainsFunc(d.issues, func(i Issue) bool { return i.Field == field })
}

// HasIssueUnder says that something inside a field is known to be wrong.
func (d *Document) HasIssueUnder(field string) bool {
	return slices.ContainsFunc(d.issues, func(i Issue) bool { return strings.HasPrefix(i.Field, field+".") })
}

// maxIssues bounds what is reported at once, so that a megabyte of mistakes costs no more than a page of them.
const maxIssues = 100

// Full says that no further mistake will be noted.
func (d *Document) Full() bool { return len(d.issues) >= maxIssues }

// Err is everything that is wrong, as Issues, or nil.
func (d *Document) Err() error {
	if len(d.issues) == 0 {
		return nil
	}
	return d.issues.sorted()
}

// Warnings is everything that was warned of, in the order of the text.
func (d *Document) Warnings() Issues { return d.warnings.sorted() }
