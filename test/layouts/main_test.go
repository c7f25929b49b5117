// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package layouts_test runs the shipped agent on every place where a driver may be installed, upgrades the driver under it, and
// takes away from it the folder for its specs.
//
// The tests run in a mount namespace of their own, in which they mount what they need; what stands there is nobody else's.
package layouts_test

import (
	"testing"

	"gpuslice/test/shipped"
)

var built shipped.Build

func TestMain(m *testing.M) { shipped.Main(m, &built) }
