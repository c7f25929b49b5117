// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package features

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"gpuslice/internal/agent"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/mig"
)

const (
	gpuKey = nvidia + "gpu."
	single = "single"
)

// strategyOf is NVIDIA's word for how instances are named: what the configs say that are in force for all GPUs, or else mixed,
// which is what GPUs without such a config have.
func (n node) strategyOf() string {
	found := ""
	for _, t := range n.Targets {
		if t.GPU.UUID == "" || t.GPU.Unsupported != nil {
			continue
		}
		strategy := cmp.Or(t.Policy.MIGStrategy, mixed)
		if found != "" && found != strategy {
			return mixed
		}
		found = strategy
	}
	return cmp.Or(found, mixed)
}

// ranked are the products of the GPUs, each with its GPUs: the one with most of them first, ties by name.
func (n node) ranked() [][]devices.GPU {
	byName := map[string][]devices.GPU{}
	for _, g := range n.gpus {
		byName[g.Product] = append(byName[g.Product], g)
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b []devices.GPU) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a[0].Product, b[0].Product))
	})
}

// offer writes what GPUs and instances are handed out. One model stands for the node.
func (n node) offer(inventory, others labels) {
	models := n.ranked()
	n.whole(models[0], inventory, others)
	if n.strategy == none {
		return
	}
	others.put(nvidia+"mig.strategy", n.strategy)
	cut := n.cut(models)
	if n.strategy == single {
		if n.single(models[0], cut, inventory, others) {
			return
		}
	}
	for _, c := range cut {
		c.write(nvidia+"mig-"+c.profile.ResourceSuffix()+".", others, others)
	}
}

// whole describes the model that stands for the node. Its GPUs in MIG mode count too, as they do for GPU Feature Discovery.
func (n node) whole(gpus []devices.GPU, inventory, others labels) {
	g := gpus[0]
	replicas, suffix := 0, ""
	if slices.ContainsFunc(gpus, func(g devices.GPU) bool { return !g.MIG.Mode.Current }) {
		replicas, suffix = n.sharing(func(d agent.Device) bool { return d.Instance == nil && d.GPU.Product == g.Product })
	}
	memory := memoryOf(gpus)
	inventory.known(gpuKey+"product", product(g.Product, suffix))
	inventory.put(gpuKey+"count", strconv.Itoa(len(gpus)))
	inventory.known(gpuKey+"memory", number(memory))
	inventory.known(domain+"gpu.model", sanitised(family(g.Model), maxValue))
	if !g.Unified { // what it works in is the host's
		inventory.known(domain+"gpu.memory-class", memoryClass(g.Model, memory))
	}
	if g.ComputeMajor > 0 {
		inventory.put(gpuKey+"compute.major", strconv.Itoa(g.ComputeMajor))
		inventory.put(gpuKey+"compute.minor", strconv.Itoa(g.ComputeMinor))
		inventory.known(gpuKey+"family", architecture(g.ComputeMajor, g.ComputeMinor))
	}
	others.put(gpuKey+"replicas", strconv.Itoa(replicas))
	others.put(gpuKey+"sharing-strategy", sharingStrategy(replicas))
}

// memoryOf is what a pod can count on: GPUs of one model that the driver says less of count as it says.
func memoryOf(gpus []devices.GPU) uint64 {
	least := uint64(0)
	for _, g := range gpus {
		if g.MemoryMiB > 0 && !g.Unified && (least == 0 || g.MemoryMiB < least) {
			least = g.MemoryMiB
		}
	}
	return least
}

func number(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

// sharing is how often some devices are offered, and what the name of their product ends in. Where only some are shared it is
// said of all, as GPU Feature Discovery does.
func (n node) sharing(of func(agent.Device) bool) (replicas int, suffix string) {
	replicas = 1
	for _, d := range n.Devices {
		if !of(d) || d.Replicas <= 1 {
			continue
		}
		replicas = max(replicas, d.Replicas)
		if !d.Renamed {
			suffix = "-SHARED"
		}
	}
	return replicas, suffix
}

func sharingStrategy(replicas int) string {
	if replicas > 1 {
		return string(agent.TimeSliced)
	}
	return none
}

// instances are all of one profile.
type instances struct {
	product  string
	profile  mig.Profile
	count    int
	replicas int
	suffix   string
}

// cut lists what the GPUs are cut into, by profile. What is said of a profile that several models have is that of the model that
// comes first.
func (n node) cut(models [][]devices.GPU) []instances {
	found := map[string]instances{}
	for _, gpus := range models {
		for _, g := range gpus {
			for _, inst := range usable(g) {
				name := inst.Slot.Profile.ResourceSuffix()
				i, known := found[name]
				if !known {
					i = instances{product: g.Product, profile: inst.Slot.Profile}
					i.replicas, i.suffix = n.sharing(func(d agent.Device) bool {
						return d.Instance != nil && d.Instance.Slot.Profile.ResourceSuffix() == name
					})
				}
				i.count++
				found[name] = i
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b instances) int { return cmp.Compare(a.profile.Name, b.profile.Name) })
}

func usable(g devices.GPU) []mig.Instance {
	if !g.MIG.Mode.Current {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(g.MIG.Instances), func(i mig.Instance) bool { return !i.Usable() })
}

// write describes the instances under a prefix; what a profile is goes to the first, how it is offered to the second.
func (i instances) write(prefix string, what, how labels) {
	p := i.profile
	what.known(prefix+"product", product(i.product, "-MIG-"+p.ResourceSuffix()+i.suffix))
	what.put(prefix+"count", strconv.Itoa(i.count))
	what.known(prefix+"memory", number(p.MemoryMiB))
	how.put(prefix+"replicas", strconv.Itoa(i.replicas))
	how.put(prefix+"sharing-strategy", sharingStrategy(i.replicas))
	how.put(prefix+"slices.gi", strconv.Itoa(p.ComputeSlices))
	how.put(prefix+"slices.ci", strconv.Itoa(p.ComputeSlices)) // one compute instance fills what is offered
	if p.Engines.SMs == 0 {
		return // the driver does not say what is in it
	}
	for name, n := range map[string]int{
		"multiprocessors": p.Engines.SMs, "engines.copy": p.Engines.Copy, "engines.decoder": p.Engines.Decoder,
		"engines.encoder": p.Engines.Encoder, "engines.jpeg": p.Engines.JPEG, "engines.ofa": p.Engines.OFA,
	} {
		how.put(prefix+name, strconv.Itoa(n))
	}
}

// single writes the instances in place of the GPUs, and says whether they are as the strategy wants them: then they have no other
// names. GPU Feature Discovery marks the product otherwise, and here they are offered under the names of their profiles.
func (n node) single(gpus []devices.GPU, cut []instances, inventory, others labels) bool {
	inMIG, empty := 0, false
	for _, g := range n.gpus {
		if g.MIG.Mode.Current {
			inMIG++
			empty = empty || len(usable(g)) == 0
		}
	}
	switch {
	case inMIG == 0:
		return true
	case inMIG == len(n.gpus) && !empty && len(cut) == 1:
		delete(inventory, gpuKey+"memory")
		cut[0].write(gpuKey, inventory, others)
		return true
	}
	inventory.known(gpuKey+"product", product(gpus[0].Product, "-MIG-INVALID"))
	inventory.put(gpuKey+"count", "0")
	inventory.put(gpuKey+"memory", "0")
	others.put(gpuKey+"replicas", "0")
	others.put(gpuKey+"sharing-strategy", "")
	return false
}
