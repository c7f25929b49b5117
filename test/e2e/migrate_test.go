// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpuslice/test/cluster/node"
	"gpuslice/test/stage"
)

// What the admin of a node with NVIDIA's components has: two ConfigMaps and two labels.
const (
	sharingConfig = `version: v1
flags: {migStrategy: mixed}
sharing:
  timeSlicing:
    renameByDefault: true
    resources:
    - {name: nvidia.com/gpu, replicas: 4}
`
	migConfigs = `version: v1
mig-configs:
  half:
  - {devices: [0], mig-enabled: true, mig-devices: {3g.40gb: 1, 1g.10gb: 3}}
  - {devices: [1], mig-enabled: false, mig-devices: {}}
`
	pluginLabel, migLabel, stateLabel = "nvidia.com/device-plugin.config", "nvidia.com/mig.config", "nvidia.com/mig.config.state"
)

// configMap writes a ConfigMap that goes with the test.
func (s *scene) configMap(name string, data map[string]string) {
	s.t.Helper()
	api := s.Client.CoreV1().ConfigMaps(stage.Namespace)
	_, err := api.Create(s.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
	s.must(err)
	s.t.Cleanup(func() {
		if err := api.Delete(context.WithoutCancel(s.t.Context()), name, metav1.DeleteOptions{}); err != nil {
			s.t.Error(err)
		}
	})
}

func (s *scene) labelled(key, value string) {
	s.t.Helper()
	s.must(s.Label(s.t.Context(), key, value))
	s.t.Cleanup(func() { s.must(s.Label(context.WithoutCancel(s.t.Context()), key, "")) })
}

func (s *scene) hasLabel(key, value string) {
	s.t.Helper()
	s.within(soon, "label "+key+"="+value, func(ctx context.Context) error {
		n, err := s.Client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
		if err == nil && n.Labels[key] != value {
			err = fmt.Errorf("%s=%q", key, n.Labels[key])
		}
		return err
	})
}

// A node that is run by NVIDIA's two ConfigMaps and labels is moved to a config of our own by what convert prints: allocatable is
// the same, and no container notices.
func TestMigrateFromNVIDIA(t *testing.T) {
	s := begin(t, "2xh100-sxm5-80gb", config+"nvidia: {devicePluginConfig: time-slicing-config, migPartedConfig: custom-mig}\n")
	s.offers(map[string]int64{"nvidia.com/gpu": 2}) // neither is there yet, so nothing is managed
	s.configMap("time-slicing-config", map[string]string{"any": sharingConfig, "other": "version: v1\n"})
	s.configMap("custom-mig", map[string]string{"config.yaml": migConfigs})
	s.labelled(pluginLabel, "any")
	s.labelled(migLabel, "half")
	allocatable := map[string]int64{"nvidia.com/gpu.shared": 4, "nvidia.com/mig-3g.40gb": 1, "nvidia.com/mig-1g.10gb": 3}
	s.offers(allocatable)
	s.hasLabel(stateLabel, "success")
	s.must(s.Run(t.Context(), stage.Workload{Name: "trainer", Resource: "nvidia.com/mig-3g.40gb"}))
	s.must(s.Run(t.Context(), stage.Workload{Name: "sharer", Resource: "nvidia.com/gpu.shared"}))

	s.must(s.Label(t.Context(), migLabel, "hlaf")) // M09: a typo changes nothing and says what there is
	s.hasLabel(stateLabel, "failed")
	s.conditionSays("half")
	s.offers(allocatable)
	s.must(s.Label(t.Context(), migLabel, "half"))
	s.hasLabel(stateLabel, "success")

	converted := s.convert()
	pid, changes := s.PID(), len(s.Driver.Machine().Log())
	s.must(s.Configure(t.Context(), converted))
	s.conditionSays("every GPU is offered as configured")
	s.must(s.Label(t.Context(), pluginLabel, ""))
	s.must(s.Label(t.Context(), migLabel, ""))
	s.offers(allocatable)
	s.sees("trainer", s.uuid(0, ""), s.uuid(0, "3g.40gb@4"))
	s.sees("sharer", s.uuid(1, ""))
	s.must(s.Alive())
	if log := s.Driver.Machine().Log()[changes:]; len(log) > 0 || s.PID() != pid {
		t.Errorf("the switch changed the hardware or the process: %v", log)
	}
}

// convert is what the shipped program makes of both files.
func (s *scene) convert() string {
	s.t.Helper()
	dir := s.t.TempDir()
	plugin, mig := filepath.Join(dir, "plugin.yaml"), filepath.Join(dir, "mig.yaml")
	s.must(os.WriteFile(plugin, []byte(sharingConfig), 0o600))
	s.must(os.WriteFile(mig, []byte(migConfigs), 0o600))
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(os.Getenv("GPUSLICE_ROOT"), "bin/gpu-plugin"), "convert",
		"--device-plugin-config", plugin, "--mig-parted-config", mig, "--selected", "half")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	s.must(err)
	return string(out)
}
