// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package cgroup

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Whatever the table says, a name leads nowhere but below the root.
func FuzzUnified(f *testing.F) {
	for _, table := range []string{"0::/a/b\n", "1:x:/y\n0::/\n", "0::/../x", "0::/a/..", "0::", "\x00"} {
		f.Add(table)
	}
	f.Fuzz(func(t *testing.T, table string) {
		name, err := unified(table)
		if err != nil {
			return
		}
		if !strings.HasPrefix(name, "/") || slices.Contains(strings.Split(name, "/"), "..") {
			t.Errorf("%q is the name of a cgroup", name)
		}
		if folder := filepath.Join("/hierarchy", name); folder != "/hierarchy" && !strings.HasPrefix(folder, "/hierarchy/") {
			t.Errorf("%q leads to %s", name, folder)
		}
	})
}
