// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package node

import (
	"fmt"
	"os"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Node is the running cluster as a test sees it.
type Node struct {
	// Dir is the cluster's own folder.
	Dir Dir
	// Config and Client act as cluster administrator, without client-side rate limit.
	Config *rest.Config
	Client kubernetes.Interface
}

// Attach connects to the cluster that the process runs in. It fails outside of "cluster exec".
func Attach() (*Node, error) {
	dir := os.Getenv(EnvDir)
	if dir == "" {
		return nil, fmt.Errorf("attach to the cluster: %s is not set; run this under: go run ./test/cluster exec --", EnvDir)
	}
	return Open(Dir(dir))
}

// Open connects to the cluster that keeps its files in dir. It does not wait for anything.
func Open(dir Dir) (*Node, error) {
	config, err := clientcmd.BuildConfigFromFlags("", dir.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build the API client: %w", err)
	}
	return &Node{Dir: dir, Config: config, Client: client}, nil
}
