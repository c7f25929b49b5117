// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package node is what a test inside the cluster of test/cluster uses: the node's paths, an administrator's client, and the things
// that the API does not offer, such as a restart of the kubelet.
//
//	n, err := node.Attach()
//	err = n.ImportImage(ctx, img)
//	err = n.PodRunning(ctx, "default", "trainer")
//	stdout, stderr, err := n.Exec(ctx, node.Container{Namespace: "default", Pod: "trainer"}, "nvidia-smi", "-L")
//	err = n.RestartKubelet(ctx)
//
// Every wait is bounded and its error says what was missing; Until is the same for a test's own conditions.
package node
