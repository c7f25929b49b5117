// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build cgo

package nvml

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	"tags.cncf.io/container-device-interface/specs-go"
)

// CommonEdits asks nvcdi for what every container with a GPU needs of the driver's files: libraries, programs, firmware, sockets
// and hooks. Without a hook program the hooks are left out, and containers must find the libraries by themselves. Device nodes
// are not among them: they are under a root of their own.
func CommonEdits(o EditsOptions) (specs.ContainerEdits, error) {
	root, err := filepath.EvalSymlinks(o.DriverRoot)
	if err != nil {
		return specs.ContainerEdits{}, fmt.Errorf("--driver-root: %w", err)
	}
	version, err := installed(root)
	if err != nil {
		return specs.ContainerEdits{}, err
	}
	var edits specs.ContainerEdits
	err = inside(root, func() error {
		var err error
		edits, err = discover(version, o.HookPath)
		return err
	})
	if err != nil {
		return specs.ContainerEdits{}, fmt.Errorf("discover the driver's files under %s: %w", root, err)
	}
	for _, m := range edits.Mounts {
		if !isDevice(m.HostPath) {
			m.HostPath = filepath.Join(root, m.HostPath)
		}
	}
	edits.DeviceNodes = nil
	return edits, nil
}

// discover runs inside the driver root, so that every link leads where it does for those who live there.
func discover(version, hook string) (specs.ContainerEdits, error) {
	dirs := make([]string, len(libraryDirs))
	for i, dir := range libraryDirs {
		dirs[i] = "/" + dir
	}
	options := []nvcdi.Option{
		nvcdi.WithMode("nvml"),
		nvcdi.WithLogger(silent{}),
		nvcdi.WithNvmlLib(versionOnly{version: version}),
		nvcdi.WithDriverRoot("/"),
		nvcdi.WithLibrarySearchPaths(dirs),
		nvcdi.WithFeatureFlags(nvcdi.FeatureDisableNvsandboxUtils),
		// It sets a limit that any pod could choose by its environment, and fails containers where the driver has none.
		nvcdi.WithDisabledHooks("apply-cuda-memory-limits"),
	}
	if hook == "" {
		options = append(options, nvcdi.WithDisabledHooks(nvcdi.HookName("all")))
	} else {
		options = append(options, nvcdi.WithNVIDIACDIHookPath(hook))
	}
	lib, err := nvcdi.New(options...)
	if err != nil {
		return specs.ContainerEdits{}, err
	}
	found, err := lib.GetCommonEdits()
	if err != nil {
		return specs.ContainerEdits{}, err
	}
	if found == nil || found.ContainerEdits == nil {
		return specs.ContainerEdits{}, nil
	}
	for _, m := range found.Mounts {
		if isDevice(m.HostPath) {
			continue
		}
		if m.HostPath, err = filepath.EvalSymlinks(m.HostPath); err != nil {
			return specs.ContainerEdits{}, err
		}
	}
	return *found.ContainerEdits, nil
}

// isDevice tells what is mounted of the host, not of the driver: /dev/null, to keep out what other ways of injection look for.
func isDevice(path string) bool { return strings.HasPrefix(path, "/dev/") }

// silent keeps nvcdi from a hundred lines about what a driver may have and this one has not.
type silent struct{}

func (silent) Debugf(string, ...any)   {}
func (silent) Errorf(string, ...any)   {}
func (silent) Infof(string, ...any)    {}
func (silent) Warningf(string, ...any) {}
func (silent) Tracef(string, ...any)   {}

// versionOnly is all that nvcdi needs of the library for the common edits: which version the files have. The library itself may
// be of the version before, as long as its process runs.
type versionOnly struct {
	nvml.Interface
	version string
}

func (versionOnly) Init() nvml.Return     { return nvml.SUCCESS }
func (versionOnly) Shutdown() nvml.Return { return nvml.SUCCESS }

// SystemGetDriverVersion fails where the version is not known, and nvcdi looks for one.
func (v versionOnly) SystemGetDriverVersion() (string, nvml.Return) {
	if v.version == "" {
		return "", nvml.ERROR_NOT_FOUND
	}
	return v.version, nvml.SUCCESS
}
