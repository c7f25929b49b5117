// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package binaries builds the programs of the test cluster from pinned Go modules and keeps them in a cache.
//
// Each group of programs has a nested module below test/cluster/modules, because their dependencies do not agree with each
// other. The version in its go.mod names the cache folder, <cache>/<name>-<version>, so two versions never mix.
package binaries

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Module is one nested module and the programs that are built from it.
type Module struct {
	// Folder below test/cluster/modules; the part before the first dash names the cache folder.
	Folder string
	// Path of the pinned requirement, whose version is the version of the programs.
	Path string
	// Programs maps the name of a program to its package; where there are several, the last part of the package is the name.
	Programs map[string]string
	// Stamped programs refuse or confuse clients unless their version is linked in.
	Stamped bool
	// Cgo programs do not build without a C compiler.
	Cgo bool
}

// Modules lists what a cluster needs. An empty release means the default one; another release, such as "1.34.4", is taken from the
// folder kubernetes-<release>.
func Modules(release string) []Module {
	kubernetes := "kubernetes"
	if release != "" {
		kubernetes += "-" + release
	}
	return []Module{
		{Folder: "etcd", Path: "go.etcd.io/etcd/server/v3", Programs: map[string]string{"etcd": "go.etcd.io/etcd/server/v3"}},
		{
			Folder:   "containerd",
			Path:     "github.com/containerd/containerd/v2",
			Programs: programs("github.com/containerd/containerd/v2/cmd/", "containerd", "containerd-shim-runc-v2", "ctr"),
		},
		{
			Folder:   "toolkit",
			Path:     "github.com/NVIDIA/nvidia-container-toolkit",
			Programs: programs("github.com/NVIDIA/nvidia-container-toolkit/cmd/", "nvidia-cdi-hook"),
			Cgo:      true,
		},
		{
			Folder:   kubernetes,
			Path:     "k8s.io/kubernetes",
			Programs: programs("k8s.io/kubernetes/cmd/", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"),
			Stamped:  true,
		},
	}
}

func programs(prefix string, names ...string) map[string]string {
	packages := make(map[string]string, len(names))
	for _, name := range names {
		packages[name] = prefix + name
	}
	return packages
}

// Names returns the names of the programs in order.
func (m Module) Names() []string { return slices.Sorted(maps.Keys(m.Programs)) }

// cacheDir is where programs of that version are kept.
func (m Module) cacheDir(cache, version string) string {
	name, _, _ := strings.Cut(m.Folder, "-")
	return filepath.Join(cache, name+"-"+version)
}

// buildArgs are the arguments of the go command that builds programs into a folder: all in one command, which links side by side.
func (m Module) buildArgs(programs []string, version, folder string) []string {
	link := "-s -w"
	if m.Stamped {
		major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
		minor, _, _ := strings.Cut(rest, ".")
		const stamp = " -X k8s.io/component-base/version."
		link += stamp + "gitVersion=" + version + stamp + "gitMajor=" + major + stamp + "gitMinor=" + minor
	}
	output := folder + "/"
	if len(programs) == 1 {
		output += programs[0]
	}
	args := []string{"build", "-trimpath", "-ldflags", link, "-o", output}
	for _, program := range programs {
		args = append(args, m.Programs[program])
	}
	return args
}

// requiredVersion reads the version that a go.mod requires of a module.
func requiredVersion(goMod, module string) (string, error) {
	for line := range strings.Lines(goMod) {
		line, _, _ = strings.Cut(line, "//")
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) == 2 && fields[0] == module && strings.HasPrefix(fields[1], "v") {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("go.mod does not require %s", module)
}
