// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package deviceplugin_test

import (
	"errors"
	"os"
	"testing"
)

// P3: a device that no runtime could inject, because its spec cannot be written, is listed as unhealthy; when it can be written
// the device heals by itself.
func TestSpecThatCannotBeWritten(t *testing.T) {
	r := newRigWith(t, "2xl40s", "cdi", func(string) {})
	r.healthy("gpu", 2)
	if err := errors.Join(os.RemoveAll(r.cdiDir), os.WriteFile(r.cdiDir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	r.Wait("both are unhealthy", limit, func() bool { return len(r.Devices("nvidia.com/gpu")) == 2 && r.Healthy("nvidia.com/gpu") == 0 })
	if err := os.Remove(r.cdiDir); err != nil {
		t.Fatal(err)
	}
	r.healthy("gpu", 2)
}
