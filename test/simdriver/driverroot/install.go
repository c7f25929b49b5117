// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package driverroot

import (
	"path/filepath"
	"strings"

	"gpuslice/test/simdriver/library"
)

// installation is what the driver's packages bring: every library as NAME.so.VERSION with the links that name it.
func installation(p Paths, a library.Artifacts, age library.Age, version string) tree {
	t := tree{p.SMI(): {mode: 0o755, copyOf: a.SMI()}}
	folder := p.Libraries()
	for name, target := range p.layout().Links {
		t[filepath.Join(p.Root, name)] = link(target)
	}
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
		t[filepath.Join(p.Root, p.layout().Firmware, "nvidia", version, "gsp_"+chip+".bin")] = text("firmware of %s\n", chip)
	}
	return t
}
