// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package strict reads YAML and JSON against Go types and says everything that is wrong at once, each with line, field and
// the valid values.
//
// A format is a struct whose fields carry yaml tags. Whatever the text holds beyond it is a mistake: unknown and repeated
// keys, values of another type, aliases, tags. What cannot be read is taken out of the text, so that the rest is still
// checked, by the format itself, which adds its own mistakes to the same Document.
package strict
