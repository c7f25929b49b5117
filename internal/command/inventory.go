// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/topology"
)

// Inventory is the document that `inventory -o json` prints. Keys are only ever added.
type Inventory struct {
	GPUs []InventoryGPU `json:"gpus"`
	// Unsupported is why GPUs that are on no bus cannot be handed out.
	Unsupported []string `json:"unsupported,omitempty"`
}

// InventoryGPU is one GPU of an Inventory. What the driver does not say is absent.
type InventoryGPU struct {
	Index     int        `json:"index"`
	Minor     int        `json:"minor"`
	UUID      string     `json:"uuid"`
	Product   string     `json:"product"`
	Model     string     `json:"model"`
	PCI       string     `json:"pci"`
	NUMA      *int       `json:"numa,omitempty"`
	MemoryMiB uint64     `json:"memoryMiB,omitempty"`
	Unified   bool       `json:"unifiedMemory,omitempty"` // the memory is the host's
	Virtual   bool       `json:"virtual,omitempty"`       // a part of a GPU of the host that this machine runs on
	Driver    string     `json:"driver"`
	MIG       string     `json:"mig,omitempty"` // "on", "off"; absent on GPUs that cannot be cut
	Instances []Instance `json:"instances"`
	Links     []Link     `json:"links,omitempty"` // to the other GPUs, as far as known
	Fault     string     `json:"fault,omitempty"`
	// Unsupported is why the GPU cannot be handed out at all.
	Unsupported string `json:"unsupported,omitempty"`
	Line        string `json:"line"`
}

// Link is how a GPU of an Inventory reaches another one.
type Link struct {
	GPU     string `json:"gpu"`               // "gpu-1"
	PCIe    string `json:"pcie"`              // "same-cpu", see topology.Class
	NVLinks int    `json:"nvlinks,omitempty"` // directly or through NVSwitch
	Score   int    `json:"score"`
}

// Instance is one MIG instance of an Inventory.
type Instance struct {
	Profile   string `json:"profile"`
	ProfileID int    `json:"profileId"`
	Start     int    `json:"start"`
	GI        int    `json:"gi"`
	CI        int    `json:"ci"`
	UUID      string `json:"uuid,omitempty"`
}

// InventoryCommand prints the node's GPUs.
func InventoryCommand() Command {
	return Command{Name: "inventory", Summary: "print the node's GPUs", Run: runInventory}
}

func runInventory(ctx context.Context, f *Flags, s Streams) int {
	node, err := f.snapshot(ctx)
	if err != nil {
		return fail(s, f, "inventory", err)
	}
	if f.Output == "text" {
		for _, g := range node.GPUs {
			fmt.Fprintln(s.Out, inventoryLine(g, node.DriverVersion))
		}
		for _, why := range node.Unsupported {
			fmt.Fprintln(s.Out, why)
		}
		return ok
	}
	return write(s, f, "inventory", inventoryOf(node))
}

func (f *Flags) snapshot(ctx context.Context) (devices.Node, error) {
	hw, err := f.hardware()
	if err != nil {
		return devices.Node{}, err
	}
	node, err := hw.Snapshot(ctx)
	if err != nil {
		return devices.Node{}, err
	}
	node.Links = hw.ReadLinks(ctx, node.GPUs)
	return node, hw.Close(ctx)
}

func inventoryLine(g devices.GPU, driver string) string {
	line := fmt.Sprintf("%s  %q %s %s", g, g.Product, g.UUID, g.PCI)
	if g.NUMA >= 0 {
		line += fmt.Sprintf(" numa=%d", g.NUMA)
	}
	if g.MemoryMiB > 0 {
		line += fmt.Sprintf(" memory=%dMiB", g.MemoryMiB)
	}
	if g.Unified {
		line += " unified"
	}
	if g.Virtual {
		line += " virtual"
	}
	return line + " driver=" + driver
}

func inventoryOf(n devices.Node) Inventory {
	inv := Inventory{GPUs: []InventoryGPU{}}
	for _, g := range n.GPUs {
		x := InventoryGPU{
			Index: g.Index, Minor: g.Minor, UUID: g.UUID, Product: g.Product, Model: g.Model, PCI: g.PCI,
			MemoryMiB: g.MemoryMiB, Unified: g.Unified, Virtual: g.Virtual, Driver: n.DriverVersion, Instances: []Instance{}, Links: linksOf(g, n), Line: g.String(),
		}
		if g.NUMA >= 0 {
			x.NUMA = &g.NUMA
		}
		if g.IsMIGCapable() {
			x.MIG = "off"
			if g.MIG.Mode.Current {
				x.MIG = "on"
			}
		}
		if g.Fault != nil {
			x.Fault = g.Fault.Error()
		}
		if g.Unsupported != nil {
			x.Unsupported = g.Unsupported.Error()
		}
		for _, i := range g.MIG.Instances {
			p := i.Slot.Profile
			x.Instances = append(x.Instances, Instance{Profile: p.Name, ProfileID: p.ID, Start: i.Slot.Start, GI: i.GI, CI: i.CI, UUID: i.UUID})
		}
		inv.GPUs = append(inv.GPUs, x)
	}
	for _, why := range n.Unsupported {
		inv.Unsupported = append(inv.Unsupported, why.Error())
	}
	return inv
}

// linksOf lists the links of one GPU.
func linksOf(g devices.GPU, n devices.Node) []Link {
	var links []Link
	for _, other := range n.GPUs {
		if link, known := n.Links[topology.PairOf(g.PCI, other.PCI)]; known {
			links = append(links, Link{GPU: other.Name(), PCIe: link.PCIe.String(), NVLinks: link.NVLinks, Score: link.Score()})
		}
	}
	return links
}

// write prints a document in the format asked for.
func write(s Streams, f *Flags, command string, document any) int {
	text, err := encode(f.Output, document)
	if err == nil {
		_, err = s.Out.Write(text)
	}
	if err != nil {
		return fail(s, f, command, err)
	}
	return ok
}

func encode(format string, document any) ([]byte, error) {
	if format == "yaml" {
		return yaml.Marshal(document)
	}
	text, err := json.MarshalIndent(document, "", "  ")
	return append(text, '\n'), err
}

func fail(s Streams, f *Flags, command string, err error) int {
	say(s.Err, fmt.Errorf("%s %s: %w", f.binary, command, err))
	return failed
}

func say(w io.Writer, err error) { fmt.Fprintln(w, err) }
