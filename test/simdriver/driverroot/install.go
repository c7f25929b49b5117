// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package driverroot

import (
	"path/filepath"
	"runtime"
	"strings"

	"gpuslice/test/simdriver/library"
)

// libraryFolder is Debian's, where container images look too.
func libraryFolder() string {
	if runtime.GOARCH == "arm64" {
		return "usr/lib/aarch64-linux-gnu"
	}
	return "usr/lib/x86_64-linux-gnu"
}

// NVML is the path of the library below a driver root.
func (p Paths) NVML() string { return filepath.Join(p.Root, libraryFolder(), library.SOName) }

// SMI is the path of nvidia-smi.
func (p Paths) SMI() string { return filepath.Join(p.Root, "usr/bin/nvidia-smi") }

// installation is what the driver's packages bring: every library as NAME.so.VERSION with the links that name it.
func installation(p Paths, a library.Artifacts, age library.Age, version string) tree {
	t := tree{p.SMI(): {mode: 0o755, copyOf: a.SMI()}}
	folder := filepath.Join(p.Root, libraryFolder())
	add := func(soname, file string) {
		base, _, _ := strings.Cut(soname, ".so")
		t[filepath.Join(folder, base+".so."+version)] = entry{mode: 0o755, copyOf: file}
		t[filepath.Join(folder, soname)] = link(base + ".so." + version)
		t[filepath.Join(folder, base+".so")] = link(soname)
	}
	add(library.SOName, a.NVML(age))
	for _, name := range library.Companions {
		add(name, a.Companion(name))
	}
	for _, chip := range []string{"tu10x", "ga10x"} {
		t[filepath.Join(p.Root, "lib/firmware/nvidia", version, "gsp_"+chip+".bin")] = text("firmware of %s\n", chip)
	}
	return t
}
