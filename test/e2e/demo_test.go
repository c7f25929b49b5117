// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build e2e

package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The demo can fail: with the subject of a check spoilt in the cluster it exits 1 and names that check; with another story
// it passes.
func TestDemo(t *testing.T) {
	const checks = 12
	for n := 1; n <= checks; n++ {
		t.Run(fmt.Sprintf("sabotage %d", n), func(t *testing.T) {
			out, err := demo(t, fmt.Sprintf("DEMO_SABOTAGE=%d", n))
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(out, fmt.Sprintf("DEMO FAILED: check %d (", n)) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	t.Run("other story", func(t *testing.T) {
		if out, err := demo(t, "DEMO_CONFIG=test/cluster/testdata/other.yaml"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("one check more does not exist", func(t *testing.T) {
		if out, err := demo(t, fmt.Sprintf("DEMO_SABOTAGE=%d", checks+1)); err == nil || !strings.Contains(out, "is not a check") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

func demo(t *testing.T, setting string) (string, error) {
	t.Helper()
	root := os.Getenv("GPUSLICE_ROOT")
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, ".out/demo.bin"))
	cmd.Dir = root
	cmd.Env = append(os.Environ(), setting)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
