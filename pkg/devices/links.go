// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"gpuslice/pkg/topology"
)

// maxNVLinks bounds of one GPU how many links are asked for.
const maxNVLinks = 4 * NVLinks

// maxLinked bounds of how many GPUs the links are read; the largest nodes that are built have 16.
const maxLinked = 64

// linkage is what the GPUs said of their links. It is read once and kept as long as the GPUs are there.
type linkage struct {
	rows   map[string]linkRow // by PCI address
	matrix topology.Matrix    // of the rows
}

// linkRow is what one GPU says of its ways to others.
type linkRow struct {
	uuid         string
	architecture int
	classes      map[string]topology.Class // to the GPUs behind it in order, by PCI address
	direct       map[string]int            // NVLinks to other GPUs, by PCI address
	switched     int                       // NVLinks into NVSwitch
	complete     bool                      // every question was answered
}

// pcieClasses are the driver's levels as classes.
var pcieClasses = map[int]topology.Class{
	LevelInternal: topology.SameBoard, LevelSingle: topology.SingleSwitch, LevelMultiple: topology.MultiSwitch,
	LevelHostBridge: topology.HostBridge, LevelNode: topology.SameCPU, LevelSystem: topology.CrossCPU,
}

// ReadLinks reads how the GPUs of a snapshot reach each other. It answers from memory unless GPUs have come or gone, or have not
// said everything yet: 8 GPUs on NVSwitch are some 500 calls, too many to be made before anything is offered.
func (h *Hardware) ReadLinks(ctx context.Context, gpus []GPU) topology.Matrix {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released[AllGPUs] != "" || !h.opened {
		return h.linkage.matrix
	}
	present := slices.DeleteFunc(slices.Clone(gpus), func(g GPU) bool { return g.Fault != nil || g.Released != "" || g.Unsupported != nil })
	if len(present) > maxLinked {
		return nil
	}
	rows, ask := h.linkage.follow(present)
	if len(ask) > 0 || len(rows) < len(h.linkage.rows) {
		maps.Copy(rows, h.readRows(ctx, ask, present))
		h.linkage = linkage{rows: rows, matrix: matrixOf(rows)}
	}
	return h.linkage.matrix
}

// follow says which rows stay and which GPUs are to be asked. A GPU that does not answer, or that we let go of, loses its own
// row and no other (P3). One that comes, or comes back, concerns all: links come up anew.
func (l linkage) follow(present []GPU) (rows map[string]linkRow, ask []GPU) {
	rows = map[string]linkRow{}
	for _, g := range present {
		if row := l.rows[g.PCI]; row.uuid == g.UUID {
			rows[g.PCI] = row
		}
	}
	if len(rows) < len(present) {
		return rows, present
	}
	return rows, slices.DeleteFunc(slices.Clone(present), func(g GPU) bool { return rows[g.PCI].complete })
}

// readRows asks every GPU at once, so that one that hangs does not delay the others.
func (h *Hardware) readRows(ctx context.Context, asked, present []GPU) map[string]linkRow {
	read := make([]linkRow, len(asked))
	var wg sync.WaitGroup
	for i, g := range asked {
		others := []string{} // the way between two is one way: the first of both is asked
		for _, other := range present {
			if other.PCI > g.PCI {
				others = append(others, other.PCI)
			}
		}
		wg.Go(func() { read[i] = h.readRow(ctx, g, others) })
	}
	wg.Wait()
	rows := map[string]linkRow{}
	for i, g := range asked {
		rows[g.PCI] = read[i]
	}
	return rows
}

// readRow never fails: what the GPU does not say is not known.
func (h *Hardware) readRow(ctx context.Context, g GPU, others []string) linkRow {
	fresh := make(chan linkRow, 1) // not a variable: an abandoned call must not write into what we return
	err := h.call(ctx, g.PCI, "read links of GPU "+g.PCI, func() error {
		handle, err := h.driver.GPUByBusID(longBusID(g.PCI))
		if err != nil {
			return err
		}
		row := linkRow{classes: map[string]topology.Class{}, direct: map[string]int{}, complete: true}
		row.readClasses(h.driver, handle, others)
		row.readNVLinks(h.driver, handle)
		fresh <- row
		return nil
	})
	row := linkRow{}
	if err == nil {
		row = <-fresh
	}
	row.uuid, row.architecture = g.UUID, g.Architecture
	return row
}

func (r *linkRow) readClasses(d Driver, handle GPUHandle, others []string) {
	for _, pci := range others {
		other, err := d.GPUByBusID(longBusID(pci))
		level := -1
		if err == nil {
			level, err = d.CommonAncestor(handle, other)
		}
		if err == nil {
			r.classes[pci] = pcieClasses[level]
		}
		r.note(err)
	}
}

// readNVLinks asks for the links that nvml.h knows of, and goes on while there are more: newer GPUs have more.
func (r *linkRow) readNVLinks(d Driver, handle GPUHandle) {
	for link := range maxNVLinks {
		active, err := d.NVLinkActive(handle, link)
		if isAbsent(err) || link >= NVLinks && err != nil {
			return
		}
		if r.note(err); err != nil || !active {
			continue
		}
		r.readEnd(d, handle, link)
	}
}

func (r *linkRow) readEnd(d Driver, handle GPUHandle, link int) {
	end, err := d.NVLinkEnd(handle, link)
	if isAbsent(err) { // a driver before R460 does not say it; then an end at the address of a GPU is that GPU
		end, err = EndGPU, nil
	}
	if r.note(err); err != nil {
		return
	}
	switch end {
	case EndNPU, EndUnknown: // leads to no GPU, nor does an end of a kind that is not known here
	case EndSwitch:
		r.switched++
	case EndGPU:
		busID, err := d.NVLinkBusID(handle, link)
		if r.note(err); err == nil {
			r.direct[shortBusID(busID)]++
		}
	}
}

// note remembers that something was not answered, except what the GPU does not have.
func (r *linkRow) note(err error) {
	if err != nil && !isAbsent(err) && !errors.Is(err, ErrInvalidArgument) {
		r.complete = false
	}
}

// matrixOf joins what both ends said.
func matrixOf(rows map[string]linkRow) topology.Matrix {
	m := topology.Matrix{}
	for a, x := range rows {
		for b, y := range rows {
			if a < b {
				m[topology.PairOf(a, b)] = linkOf(a, x, b, y)
			}
		}
	}
	return m
}

// linkOf is the link of two GPUs. GPUs of one kind that reach NVSwitch reach each other with all the links they have: a node has
// one fabric of a generation, also where its boards have switches of their own.
func linkOf(a string, x linkRow, b string, y linkRow) topology.Link {
	link := topology.Link{PCIe: cmp.Or(x.classes[b], y.classes[a]), NVLinks: max(x.direct[b], y.direct[a])}
	if x.architecture == y.architecture {
		link.NVLinks += min(x.switched, y.switched)
	}
	return link
}
