// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package limits_test holds real processes to limits: the shipped agent and the shipped hook, on a cgroup v2 hierarchy, with a
// simulated driver below them.
//
// The tests run in a mount namespace of their own, in which they mount what they need; what stands there is nobody else's.
package limits_test

import (
	"testing"

	"gpuslice/test/shipped"
)

var built shipped.Build

func TestMain(m *testing.M) { shipped.Main(m, &built) }
