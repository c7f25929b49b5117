// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build tools

// Package etcd pins the etcd server of the test cluster.
package etcd

import _ "go.etcd.io/etcd/server/v3"
