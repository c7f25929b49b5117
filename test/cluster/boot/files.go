// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package boot

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gpuslice/test/cluster/node"
)

// Files of the cluster's own folder, by relative name; certificates end in .crt and .key.
const (
	authorityFile    = "pki/ca.crt"
	apiServing       = "pki/apiserver"
	apiKubeletClient = "pki/apiserver-kubelet-client"
	kubeletServing   = "pki/kubelet"
	tokenKey         = "pki/service-account"
)

// identities are the certificates that programs read as files.
func identities() map[string]identity {
	return map[string]identity{
		apiServing: {name: "kube-apiserver", hosts: []string{
			serviceIP, node.IP, "127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local",
		}},
		apiKubeletClient: {name: "kube-apiserver-kubelet-client", groups: []string{"system:masters"}},
		kubeletServing:   {name: "system:node:" + node.Name, groups: []string{"system:nodes"}, hosts: []string{node.Name, node.IP}},
	}
}

// clients are the holders of a kubeconfig, by the name of its file.
func clients() map[string]identity {
	return map[string]identity{
		"admin":                   {name: "admin", groups: []string{"system:masters"}},
		"kube-controller-manager": {name: "system:kube-controller-manager"},
		"kube-scheduler":          {name: "system:kube-scheduler"},
		"kubelet":                 {name: "system:node:" + node.Name, groups: []string{"system:nodes"}},
	}
}

// files are all files that the programs need, by name relative to the cluster's own folder.
func files(s Settings, now time.Time) (map[string][]byte, error) {
	ca, err := newAuthority(now)
	if err != nil {
		return nil, err
	}
	signing, err := newSigningKey()
	if err != nil {
		return nil, err
	}
	contents := map[string][]byte{
		authorityFile:     ca.pem,
		tokenKey + ".pub": signing.public,
		tokenKey + ".key": signing.private,
		// The node has no name server, and pods must not inherit the machine's.
		"resolv.conf": nil,
	}
	for name, id := range identities() {
		pair, err := ca.issue(id)
		if err != nil {
			return nil, err
		}
		contents[name+".crt"], contents[name+".key"] = pair.public, pair.private
	}
	for name, id := range clients() {
		pair, err := ca.issue(id)
		if err != nil {
			return nil, err
		}
		if contents[name+".kubeconfig"], err = kubeconfig(ca, pair); err != nil {
			return nil, err
		}
	}
	for file, name := range map[string]string{"kubelet.yaml": "kubelet.yaml", "containerd.toml": "containerd.toml", "cni/net.conflist": "net.conflist"} {
		if contents[file], err = render(name, s); err != nil {
			return nil, err
		}
	}
	return contents, nil
}

// writeFiles fills the cluster's own folder: files, a link to each program, and the link to the logs.
func writeFiles(s Settings, contents map[string][]byte) error {
	links := map[string]string{clusterDir.Logs(): s.Logs}
	for name, program := range s.Programs {
		links[clusterDir.Program(name)] = program
	}
	var failed []error
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		failed = append(failed, withFolder(path(name), func(file string) error { return os.WriteFile(file, contents[name], 0o600) }))
	}
	for _, link := range slices.Sorted(maps.Keys(links)) {
		failed = append(failed, withFolder(link, func(file string) error { return os.Symlink(links[link], file) }))
	}
	return errors.Join(failed...)
}

func withFolder(file string, write func(file string) error) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("create the folder of %s: %w", file, err)
	}
	if err := write(file); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
