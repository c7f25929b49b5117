// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package strict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Issue is one thing that is wrong with a config.
type Issue struct {
	File    string
	Line    int    // from 1; 0 = the file as a whole
	Field   string // "layouts.inference.mig.fill"
	Message string // what is wrong and which values are valid
}

func (i Issue) Error() string {
	at := i.File
	if i.Line > 0 {
		at += fmt.Sprintf(":%d", i.Line)
	}
	if i.Field != "" {
		at += ": " + i.Field
	}
	return at + ": " + i.Message
}

// Issues is everything that is wrong, in the order of the text; as an error it has one line each.
type Issues []Issue

func (is Issues) Error() string {
	lines := make([]string, len(is))
	for i, issue := range is {
		lines[i] = issue.Error()
	}
	return strings.Join(lines, "\n")
}

// sorted brings issues in the order of the text and their fields to a length that can be read.
func (is Issues) sorted() Issues {
	slices.SortStableFunc(is, func(a, b Issue) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), strings.Compare(a.Field, b.Field))
	})
	for i := range is {
		is[i].Field = clipTo(is[i].Field, maxField)
	}
	return is
}

// What a message quotes is clipped: it stands in logs and in the status of a node.
const (
	maxValue  = 64 // bytes of a value
	maxField  = 256
	maxListed = 16 // valid values
)

// Clip shortens a value of the config to what a message can quote.
func Clip(value string) string { return clipTo(value, maxValue) }

func clipTo(text string, size int) string {
	if len(text) <= size {
		return text
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size] + "..."
}

// Listed says which values are valid.
func Listed(valid []string) string {
	shown := make([]string, 0, maxListed)
	for _, v := range valid[:min(len(valid), maxListed)] {
		shown = append(shown, Clip(v))
	}
	text := strings.Join(shown, ", ")
	if more := len(valid) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// OneOf says which values are valid and, when one is near, which was probably meant.
func OneOf(got string, valid []string) string {
	text := fmt.Sprintf("%q is not one of %s", Clip(got), Listed(valid))
	if near := nearest(got, valid); near != "" {
		text += fmt.Sprintf("; did you mean %s?", near)
	}
	return text
}

// nearest returns the valid word that got is probably a misspelling of, or "". Long words are not compared: that takes
// time with the square of their length.
func nearest(got string, valid []string) string {
	if len(got) > maxValue {
		return ""
	}
	best, bestDistance := "", 1+len(got)/3
	for _, v := range valid {
		if len(v) > maxValue {
			continue
		}
		if d := distance(strings.ToLower(got), strings.ToLower(v)); d <= bestDistance && (best == "" || d < bestDistance) {
			best, bestDistance = v, d
		}
	}
	return best
}

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
