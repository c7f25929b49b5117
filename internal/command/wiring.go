// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"tags.cncf.io/container-device-interface/specs-go"

	"gpuslice/internal/agent"
	"gpuslice/pkg/cdi"
	"gpuslice/pkg/devices/nvml"
)

// client reaches the API server. The device plugin alone with a config file does without one and then reports locally only.
func (f *Flags) client() (kubernetes.Interface, error) {
	needed := strings.HasPrefix(f.Config, "configmap:") || slices.Contains(f.APIs, agent.DRA)
	config, err := f.apiServer()
	if err != nil && f.Kubeconfig == "" && !needed {
		return nil, nil //nolint:nilnil // no client is a way to run
	}
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	if needed && f.NodeName == "" {
		return nil, fmt.Errorf("--node-name is needed with --config=configmap:... and with --api=dra")
	}
	return clientFor(config)
}

func (f *Flags) apiServer() (*rest.Config, error) {
	if f.Kubeconfig != "" {
		return clientcmd.BuildConfigFromFlags("", f.Kubeconfig)
	}
	return rest.InClusterConfig()
}

func clientFor(config *rest.Config) (kubernetes.Interface, error) {
	config.QPS = -1 // the server's own fairness decides
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	return client, nil
}

// serviceAccountNamespace is where a pod finds the namespace that it runs in.
const serviceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// namespace is where ConfigMaps in NVIDIA's formats are: that of our own ConfigMap, or else that of the client's context.
func (f *Flags) namespace() (string, error) {
	if name, ok := strings.CutPrefix(f.Config, "configmap:"); ok {
		namespace, _, _ := strings.Cut(name, "/")
		return namespace, nil
	}
	if f.Kubeconfig != "" {
		rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: f.Kubeconfig}
		namespace, _, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).Namespace()
		if err != nil {
			return "", fmt.Errorf("read the namespace of %s: %w", f.Kubeconfig, err)
		}
		return namespace, nil
	}
	text, err := os.ReadFile(serviceAccountNamespace)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // there is no API server either
	}
	return strings.TrimSpace(string(text)), err
}

// specWriter puts CDI specs together. Simulated hardware has no device nodes and no driver files: its numbers are computed.
func (f *Flags) specWriter() (*cdi.Writer, error) {
	files := cdi.NewFiles(f.CDIDir)
	nodes := cdi.Roots{Dev: f.DevRoot, Proc: f.ProcRoot}
	w := &cdi.Writer{Files: files, Owner: f.NodeName, Nodes: nodes}
	if strings.HasPrefix(f.Hardware, "sim:") {
		w.Nodes = cdi.Computed{}
		w.Common = func() (specs.ContainerEdits, error) { return specs.ContainerEdits{}, nil }
		return w, nil
	}
	hook := ""
	if f.HookPath != "" {
		var err error
		if hook, err = f.placeHook(f.HookPath, "nvidia-cdi-hook"); err != nil {
			return nil, err
		}
	}
	w.Common = func() (specs.ContainerEdits, error) {
		return nvml.CommonEdits(nvml.EditsOptions{DriverRoot: f.DriverRoot, HookPath: hook})
	}
	w.Print = func() string { return nvml.Print(f.DriverRoot) + nodes.Print() }
	return w, nil
}
