// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package schema describes documents to machines and to people: JSON Schemas and reference tables, both made from the Go
// types that are decoded or printed, so that a field cannot be added without appearing in them.
//
// What a type does not say of a field of a config (valid values, default, meaning) stands in ConfigFields, one row for each
// field: a field without a row and a row without a field are errors.
package schema
