// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package boot

import (
	"fmt"

	"gpuslice/test/cluster/node"
)

// program is one long-running program of the node.
type program struct {
	name string
	path string
	args []string
}

const etcdAddress = "http://127.0.0.1:2379"

// programs are all long-running programs by name.
func programs(s Settings) (map[string]program, error) {
	all := map[string]program{}
	for name, args := range map[string][]string{
		"etcd": {
			"--name=etcd", "--data-dir=" + path("etcd"), "--listen-client-urls=" + etcdAddress, "--advertise-client-urls=" + etcdAddress,
			"--unsafe-no-fsync", "--log-level=warn",
		},
		"kube-apiserver":          apiServerArgs(),
		"kube-controller-manager": controllerManagerArgs(),
		"kube-scheduler": {
			"--kubeconfig=" + path("kube-scheduler.kubeconfig"), "--leader-elect=false", "--bind-address=127.0.0.1",
		},
		"containerd": {"--config=" + path("containerd.toml")},
		"kubelet": {
			"--config=" + path("kubelet.yaml"), "--kubeconfig=" + path("kubelet.kubeconfig"), "--cert-dir=" + path("kubelet-pki"),
			"--hostname-override=" + node.Name, "--node-ip=" + node.IP,
		},
	} {
		file, ok := s.Programs[name]
		if !ok {
			return nil, fmt.Errorf("no path is known of program %s", name)
		}
		all[name] = program{name: name, path: file, args: args}
	}
	return all, nil
}

func apiServerArgs() []string {
	return []string{
		// Port 443 on every address makes the service address work in pods without kube-proxy.
		"--secure-port=443", "--bind-address=0.0.0.0", "--advertise-address=" + node.IP,
		"--service-cluster-ip-range=" + serviceRange,
		"--etcd-servers=" + etcdAddress,
		"--tls-cert-file=" + path(apiServing+".crt"), "--tls-private-key-file=" + path(apiServing+".key"),
		"--client-ca-file=" + path(authorityFile),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + path(tokenKey+".pub"), "--service-account-signing-key-file=" + path(tokenKey+".key"),
		"--kubelet-certificate-authority=" + path(authorityFile),
		"--kubelet-client-certificate=" + path(apiKubeletClient+".crt"), "--kubelet-client-key=" + path(apiKubeletClient+".key"),
		// The node's name is not in any DNS.
		"--kubelet-preferred-address-types=InternalIP",
		"--allow-privileged=true",
	}
}

func controllerManagerArgs() []string {
	return []string{
		"--kubeconfig=" + path("kube-controller-manager.kubeconfig"), "--leader-elect=false", "--bind-address=127.0.0.1",
		"--service-account-private-key-file=" + path(tokenKey+".key"), "--root-ca-file=" + path(authorityFile),
		"--use-service-account-credentials=true",
		// The default rate makes the start of its controllers take five seconds.
		"--kube-api-qps=500", "--kube-api-burst=1000",
	}
}
