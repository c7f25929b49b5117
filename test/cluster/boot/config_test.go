// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package boot

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"
)

func testSettings() Settings {
	s := Settings{Programs: map[string]string{}, Cgroup: "gpuslice-7", Logs: "/logs"}
	for _, name := range []string{
		"containerd", "containerd-shim-runc-v2", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet",
	} {
		s.Programs[name] = "/cache/" + name
	}
	return s
}

func testFiles(t *testing.T) map[string][]byte {
	t.Helper()
	contents, err := files(testSettings(), testTime)
	if err != nil {
		t.Fatal(err)
	}
	return contents
}

// The kubelet's own type is the oracle for names and kinds of the fields.
func TestKubeletConfig(t *testing.T) {
	var config kubeletv1beta1.KubeletConfiguration
	if err := yaml.UnmarshalStrict(testFiles(t)["kubelet.yaml"], &config); err != nil {
		t.Fatal(err)
	}
	if config.FailCgroupV1 == nil || *config.FailCgroupV1 {
		t.Error("the kubelet would refuse a machine with cgroup v1")
	}
	if config.EnforceNodeAllocatable == nil || len(config.EnforceNodeAllocatable) != 0 {
		t.Errorf("enforceNodeAllocatable = %v, which is not an empty list", config.EnforceNodeAllocatable)
	}
	got := map[string]any{
		"cgroupRoot": config.CgroupRoot, "endpoint": config.ContainerRuntimeEndpoint, "status": config.NodeStatusUpdateFrequency.Duration,
		"report": config.NodeStatusReportFrequency.Duration, "authorization": config.Authorization.Mode,
	}
	want := map[string]any{
		"cgroupRoot": "/gpuslice-7", "endpoint": "unix:///run/containerd/containerd.sock", "status": time.Second,
		"report": 5 * time.Minute, "authorization": kubeletv1beta1.KubeletAuthorizationModeWebhook,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kubelet.yaml (-want +got):\n%s", diff)
	}
}

func TestContainerdConfig(t *testing.T) {
	config := string(testFiles(t)["containerd.toml"])
	for _, line := range []string{
		`restrict_oom_score_adj = true`, `cdi_spec_dirs = ["/var/run/cdi"]`, `runtime_path = "/cache/containerd-shim-runc-v2"`,
		`BinaryName = "/usr/sbin/runc"`, `conf_dir = "/run/gpuslice/cni"`, `sandbox = "gpuslice.test/pause:1"`,
	} {
		if !strings.Contains(config, "\n"+line+"\n") {
			t.Errorf("containerd.toml lacks %s:\n%s", line, config)
		}
	}
}

func TestNetworkConfig(t *testing.T) {
	var config struct {
		Plugins []struct {
			Type string
			IPAM struct{ Ranges [][]struct{ Subnet string } }
		}
	}
	if err := json.Unmarshal(testFiles(t)["cni/net.conflist"], &config); err != nil {
		t.Fatal(err)
	}
	if len(config.Plugins) != 1 || config.Plugins[0].Type != "bridge" || config.Plugins[0].IPAM.Ranges[0][0].Subnet != podRange {
		t.Errorf("plugins = %+v", config.Plugins)
	}
}

func TestKubeconfig(t *testing.T) {
	contents := testFiles(t)
	config, err := clientcmd.RESTConfigFromKubeConfig(contents["admin.kubeconfig"])
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://10.96.0.1" || string(config.CAData) != string(contents[authorityFile]) || len(config.CertData) == 0 {
		t.Errorf("admin.kubeconfig leads to %s with %d bytes of authority and %d of certificate",
			config.Host, len(config.CAData), len(config.CertData))
	}
}

// Every file that a program or a config reads is written: a wrong name would show only as a program that dies.
func TestFilesThatAreNamedExist(t *testing.T) {
	contents := testFiles(t)
	all, err := programs(testSettings())
	if err != nil {
		t.Fatal(err)
	}
	text := string(contents["kubelet.yaml"]) + "\n" + string(contents["containerd.toml"])
	for _, p := range all {
		text += "\n" + strings.Join(p.args, "\n")
	}
	named := regexp.MustCompile(`/run/gpuslice/([\w./-]+\.(crt|key|pub|kubeconfig|yaml|toml|conf))\b`).FindAllStringSubmatch(text, -1)
	if len(named) < 12 {
		t.Fatalf("found only %d names; the pattern is wrong:\n%s", len(named), text)
	}
	for _, match := range named {
		if _, ok := contents[match[1]]; !ok {
			t.Errorf("%s is named but not written", match[1])
		}
	}
}

func TestProgramsNeedTheirPaths(t *testing.T) {
	settings := testSettings()
	all, err := programs(settings)
	if err != nil {
		t.Fatal(err)
	}
	if got := all["kubelet"].path; got != "/cache/kubelet" {
		t.Errorf("kubelet is started as %q", got)
	}
	delete(settings.Programs, "etcd")
	if _, err := programs(settings); err == nil {
		t.Error("a program without path was accepted")
	}
}
