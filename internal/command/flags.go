// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpuslice/internal/agent"
	"gpuslice/internal/cordon"
)

// Flags is the command line after parsing. Every command knows every flag, so that one line of flags serves plan and run.
type Flags struct {
	binary string

	Hardware    string
	DriverRoot  string
	DevRoot     string
	ProcRoot    string
	SysRoot     string
	CDIDir      string
	StateDir    string
	KubeletDir  string
	Config      string
	Kubeconfig  string
	NodeName    string
	NodeLabels  map[string]string
	Output      string
	Listen      string
	ApplyJitter time.Duration
	Poll        time.Duration
	APIs        []agent.API
	Strategy    string
	HookPath    string
	LimitHook   string
	// What convert converts.
	DevicePluginConfig string
	MIGPartedConfig    string
	Selected           string
	// What cordon does, and where its Lease is.
	Cordon         cordon.Settings
	LeaseNamespace string
	Verbosity      int
	LogFormat      string
	set            map[string]bool
}

func parseFlags(b Binary, c Command, args []string, errors io.Writer) (*Flags, error) {
	f := &Flags{binary: b.Name, NodeLabels: map[string]string{}, set: map[string]bool{}}
	set := flag.NewFlagSet(b.Name+" "+c.Name, flag.ContinueOnError)
	set.SetOutput(errors)
	set.StringVar(&f.Hardware, "hardware", "nvml", "nvml, or sim:SPEC such as sim:8xh100-sxm5-80gb or sim:@machine.yaml")
	set.StringVar(&f.DriverRoot, "driver-root", "/", "where the driver is installed")
	set.StringVar(&f.DevRoot, "dev-root", "", "where its device nodes are (default: driver root)")
	set.StringVar(&f.ProcRoot, "proc-root", "/proc", "where proc is mounted")
	set.StringVar(&f.SysRoot, "sys-root", "/sys", "where sysfs is mounted")
	set.StringVar(&f.CDIDir, "cdi-dir", "/var/run/cdi", "where CDI specs are written")
	set.StringVar(&f.StateDir, "state-dir", "/var/lib/gpuslice", "where the agent keeps its state")
	set.StringVar(&f.KubeletDir, "kubelet-dir", "/var/lib/kubelet", "the kubelet's directory")
	set.StringVar(&f.Config, "config", "", "file:PATH or configmap:NAMESPACE/NAME (default: none, everything unmanaged)")
	set.StringVar(&f.Kubeconfig, "kubeconfig", "", "how to reach the API server (default: from inside the cluster)")
	set.StringVar(&f.NodeName, "node-name", "", "the name of this node")
	set.StringVar(&f.Output, "o", "text", "text, json or yaml")
	set.StringVar(&f.Listen, "listen", ":9410", "address of /metrics, /healthz, /readyz, /status")
	set.DurationVar(&f.ApplyJitter, "apply-jitter", 3*time.Second, "random delay before an edited config is applied")
	set.DurationVar(&f.Poll, "poll", 10*time.Second, "how often everything is read again without a cause")
	set.StringVar(&f.Strategy, "device-list-strategy", "cdi", "cdi, or envvar for runtimes without CDI")
	set.StringVar(&f.HookPath, "nvidia-cdi-hook", "", "path of the nvidia-cdi-hook program (default: no hooks)")
	set.StringVar(&f.LimitHook, "gpuslice-hook", "", "path of the gpuslice-hook program (default: beside this program)")
	set.StringVar(&f.DevicePluginConfig, "device-plugin-config", "", "for convert: a config of NVIDIA's device plugin")
	set.StringVar(&f.MIGPartedConfig, "mig-parted-config", "", "for convert: a config of mig-parted, or builtin for the well-known ones")
	set.StringVar(&f.Selected, "selected", "", "for convert: the name of the config in that of mig-parted")
	ofCordon := cordonFlags(set, f)
	set.IntVar(&f.Verbosity, "v", 0, "verbosity of the log: 0, 2, 4 or 6")
	set.StringVar(&f.LogFormat, "log-format", "text", "text or json")
	apis := set.String("api", b.APIs, "which APIs to serve: device-plugin, dra, or both with a comma")
	labels := set.String("node-labels", "", "labels of the node as k=v,... (default: read from the API server)")
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	if set.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	set.Visit(func(x *flag.Flag) { f.set[x.Name] = true })
	f.DevRoot = cmp.Or(f.DevRoot, f.DriverRoot)
	if err := ofCordon.into(f); err != nil {
		return nil, err
	}
	return f, f.check(*apis, *labels)
}

func (f *Flags) check(apis, labels string) error {
	for name, choice := range map[string]struct {
		got   string
		valid []string
	}{
		"o":                    {f.Output, []string{"text", "json", "yaml"}},
		"device-list-strategy": {f.Strategy, []string{"cdi", "envvar"}},
		"log-format":           {f.LogFormat, []string{"text", "json"}},
	} {
		if !contains(choice.valid, choice.got) {
			return fmt.Errorf("--%s=%s is not one of %s", name, choice.got, strings.Join(choice.valid, ", "))
		}
	}
	if err := f.checkValues(); err != nil {
		return err
	}
	for name := range strings.SplitSeq(apis, ",") {
		api := agent.API(strings.TrimSpace(name))
		if api != agent.DevicePlugin && api != agent.DRA {
			return fmt.Errorf("--api=%s: %q is not one of device-plugin, dra", apis, name)
		}
		f.APIs = append(f.APIs, api)
	}
	if labels == "" {
		return nil
	}
	for pair := range strings.SplitSeq(labels, ",") {
		key, value, found := strings.Cut(pair, "=")
		if !found || key == "" {
			return fmt.Errorf("--node-labels: %q is not of the form key=value", pair)
		}
		f.NodeLabels[key] = value
	}
	return nil
}

// minPoll keeps a poll from being a load of its own.
const minPoll = 100 * time.Millisecond

func (f *Flags) checkValues() error {
	if f.Poll < minPoll {
		return fmt.Errorf("--poll=%v is below %v", f.Poll, minPoll)
	}
	if f.ApplyJitter < 0 {
		return fmt.Errorf("--apply-jitter=%v is negative", f.ApplyJitter)
	}
	for name, dir := range map[string]string{"state-dir": f.StateDir, "cdi-dir": f.CDIDir, "kubelet-dir": f.KubeletDir} {
		if !filepath.IsAbs(dir) {
			return fmt.Errorf("--%s=%q is not an absolute path", name, dir)
		}
	}
	return f.checkConfig()
}

func (f *Flags) checkConfig() error {
	if f.Config == "" {
		return nil
	}
	if path, ok := strings.CutPrefix(f.Config, "file:"); ok && path != "" {
		return nil
	}
	name, ok := strings.CutPrefix(f.Config, "configmap:")
	if namespace, object, found := strings.Cut(name, "/"); ok && found && namespace != "" && object != "" && !strings.Contains(object, "/") {
		return nil
	}
	return fmt.Errorf("--config=%s is neither file:PATH nor configmap:NAMESPACE/NAME", f.Config)
}

func contains(list []string, text string) bool {
	return slices.Contains(list, text)
}
