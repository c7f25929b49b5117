// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package boot

import (
	"bytes"
	"embed"
	"fmt"
	"path/filepath"
	"text/template"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"gpuslice/test/cluster/image"
	"gpuslice/test/cluster/node"
)

//go:embed config
var configFiles embed.FS

var configTemplates = template.Must(template.New("").Option("missingkey=error").ParseFS(configFiles, "config/*"))

// configValues are the names that the templates use.
func configValues(s Settings) map[string]string {
	return map[string]string{
		"Cgroup":          s.Cgroup,
		"Dir":             string(clusterDir),
		"Socket":          node.ContainerdSocket,
		"State":           node.ContainerdState,
		"CDIDir":          node.CDIDir,
		"Shim":            s.Programs["containerd-shim-runc-v2"],
		"Runc":            runcPath,
		"CNIPath":         cniPath,
		"CNIConfig":       filepath.Dir(path("cni/net.conflist")),
		"CNIState":        path("cni/state"),
		"PodRange":        podRange,
		"Pause":           image.PauseName,
		"ClientAuthority": path(authorityFile),
		"ServingCert":     path(kubeletServing + ".crt"),
		"ServingKey":      path(kubeletServing + ".key"),
		"VolumePlugins":   path("volume-plugins"),
		"ResolvConf":      path("resolv.conf"),
	}
}

// render fills one template.
func render(name string, s Settings) ([]byte, error) {
	var buffer bytes.Buffer
	if err := configTemplates.ExecuteTemplate(&buffer, name, configValues(s)); err != nil {
		return nil, fmt.Errorf("render %s: %w", name, err)
	}
	return buffer.Bytes(), nil
}

// kubeconfig lets the holder of a certificate call the API server from anywhere in the cluster.
func kubeconfig(a authority, client keyPair) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["gpuslice"] = &clientcmdapi.Cluster{Server: "https://" + serviceIP, CertificateAuthorityData: a.pem}
	config.AuthInfos["client"] = &clientcmdapi.AuthInfo{ClientCertificateData: client.public, ClientKeyData: client.private}
	config.Contexts["gpuslice"] = &clientcmdapi.Context{Cluster: "gpuslice", AuthInfo: "client"}
	config.CurrentContext = "gpuslice"
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encode a kubeconfig: %w", err)
	}
	return data, nil
}

// path is a file in the cluster's own folder.
func path(name string) string { return filepath.Join(string(clusterDir), name) }
