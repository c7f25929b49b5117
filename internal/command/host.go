// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command

import (
	"gpuslice/internal/agent"
	"gpuslice/internal/features"
	"gpuslice/internal/report"
	"gpuslice/pkg/devices"
)

// hosts reads what labels say beside what the driver knows: when a view is there, so that no list waits for it, and of each GPU
// until it is known. What it returns is for one caller at a time.
func (f *Flags) hosts() report.Hosts {
	files := devices.HostFiles{Proc: f.ProcRoot, Sys: f.SysRoot}
	machine := ""
	known := map[string]features.PCI{} // by UUID, because another GPU may be put in one's place
	return func(v *agent.View) features.Host {
		if machine == "" {
			machine = files.Machine()
		}
		host := features.Host{Machine: machine, PCI: map[string]features.PCI{}}
		for _, g := range v.Node.GPUs {
			if g.UUID == "" || g.Unsupported != nil {
				continue
			}
			p := known[g.UUID]
			if p.Class == 0 {
				p.Class = files.PCIClass(g.PCI)
			}
			if p.VGPU == nil {
				p.VGPU = files.VGPUMark(g.PCI)
			}
			known[g.UUID], host.PCI[g.PCI] = p, p
		}
		return host
	}
}
