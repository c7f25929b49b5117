// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"gpuslice/pkg/mig"
)

// architectureAmpere is NVML_DEVICE_ARCH_AMPERE: the one generation whose MIG mode takes effect with a reset only.
const architectureAmpere = 7

// ErrGone is the fault of a GPU that the driver no longer counts.
var ErrGone = errors.New("the driver no longer lists it")

// Options of Hardware; zero values are good on a real node.
type Options struct {
	// CallLimit bounds every operation on one GPU; default 30 s, three times the slowest look-up reported under load.
	CallLimit time.Duration
	// NUMANode answers for a PCI address; negative means unknown. Default: unknown.
	NUMANode func(pci string) int
	// Program is nvidia-smi; none means that there is none here.
	Program Program
	// Holders names what else holds a GPU; default: nobody can say.
	Holders Holders
}

type noHolders struct{}

func (noHolders) Clients(string, int) []string { return nil }
func (noHolders) Modules() []string            { return nil }

// Hardware is the adapter above the seam. It opens GPUs by PCI bus id, because a look-up by UUID fails for all while one is
// lost, keeps what it knows of a GPU that does not answer, and never waits for the driver longer than its limit.
type Hardware struct {
	driver Driver
	opts   Options
	bounds *bounds
	gate   gate

	mu       sync.Mutex // guards what follows
	opened   bool
	known    map[string]reading // last good one by PCI address
	released map[string]string  // why, by PCI address; AllGPUs concerns every GPU
	linkage  linkage
}

// reading is what a GPU said in a session of the driver.
type reading struct {
	GPU
	session int
}

// New wraps a driver session that is not open yet.
func New(d Driver, opts Options) *Hardware {
	opts.CallLimit = cmp.Or(opts.CallLimit, 30*time.Second)
	if opts.NUMANode == nil {
		opts.NUMANode = func(string) int { return -1 }
	}
	if opts.Holders == nil {
		opts.Holders = noHolders{}
	}
	return &Hardware{driver: d, opts: opts, bounds: newBounds(opts.CallLimit), known: map[string]reading{}}
}

// Snapshot reads the whole node, opening the driver first if need be. It fails only when the driver as a whole does not
// answer: a GPU that does not is in the Node with its Fault, and costs the others nothing (P3).
func (h *Hardware) Snapshot(ctx context.Context) (Node, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released[AllGPUs] != "" {
		return h.remembered(), nil
	}
	if err := h.open(ctx); err != nil {
		return Node{}, err
	}
	var node Node
	ids := []string{}
	silent := 0
	err := h.call(ctx, "", "read the driver's list of GPUs", func() (err error) {
		if node.DriverVersion, err = optional(h.driver.DriverVersion()); err != nil {
			return fmt.Errorf("read driver version: %w", err)
		}
		if node.CUDAVersion, err = optional(h.driver.CUDADriverVersion()); err != nil {
			return fmt.Errorf("read CUDA version: %w", err)
		}
		ids, silent, err = h.list()
		return err
	})
	if err != nil {
		h.reopenIfClosed(err)
		return Node{}, err
	}
	node.GPUs = h.readAll(ctx, ids, silent)
	node.Links = h.linkage.matrix
	node.Silent = max(0, silent-(len(node.GPUs)-len(ids))) // those that were known before are among the GPUs
	return node, nil
}

// open starts a session; a driver that is not there yet is asked again next time.
func (h *Hardware) open(ctx context.Context) error {
	if h.opened {
		return nil
	}
	if err := h.bounds.do(ctx, "", "open the driver", h.driver.Init); err != nil {
		return fmt.Errorf("open the driver: %w", err)
	}
	h.opened = true
	h.gate.open()
	return nil
}

// call bounds a call of the open session.
func (h *Hardware) call(ctx context.Context, key, operation string, fn func() error) error {
	return h.callIn(ctx, 0, key, operation, fn)
}

// callIn is call for a session that is known by its number.
func (h *Hardware) callIn(ctx context.Context, generation int, key, operation string, fn func() error) error {
	return h.bounds.do(ctx, key, operation, func() error {
		if err := h.gate.enter(generation); err != nil {
			return fmt.Errorf("%s: %w", operation, err)
		}
		defer h.gate.leave()
		return fn()
	})
}

// reopenIfClosed ends a session that the driver has ended, so that a reloaded driver is picked up.
func (h *Hardware) reopenIfClosed(err error) {
	if errors.Is(err, ErrUninitialized) || errors.Is(err, ErrDriverNotLoaded) || errors.Is(err, ErrVersionMismatch) {
		_ = h.driver.Shutdown() // the session is dead already; what Shutdown says of it changes nothing
		h.opened = false
		h.gate.takeSets()
	}
}

// Close ends the session.
func (h *Hardware) Close(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closeSession(ctx)
}

// Exhausted says that so many calls hang that a new process is the better remedy (P11).
func (h *Hardware) Exhausted() bool {
	h.mu.Lock()
	gpus := len(h.known)
	h.mu.Unlock()
	return h.bounds.exhausted(gpus)
}

// list returns the PCI addresses that the driver enumerates, and how many GPUs it counts that do not say theirs: such a
// one is known from before, or not at all.
func (h *Hardware) list() (ids []string, silent int, err error) {
	if len(h.released) > 0 { // a look-up by index would take hold of the released ones
		return h.notReleased(), 0, nil
	}
	n, err := h.driver.GPUCount()
	if err != nil {
		return nil, 0, fmt.Errorf("count GPUs: %w", err)
	}
	for i := range n {
		gpu, err := h.driver.GPUByIndex(i)
		if err != nil {
			silent++
			continue
		}
		id, err := h.driver.BusID(gpu)
		if err != nil {
			silent++
			continue
		}
		ids = append(ids, shortBusID(id))
	}
	return ids, silent, nil
}

// readAll reads every GPU at once, so that one that hangs does not delay the others. A known GPU that is not listed is gone
// only when every GPU that the driver counts has said its address.
func (h *Hardware) readAll(ctx context.Context, listed []string, silent int) []GPU {
	ids := slices.Concat(listed, slices.Collect(maps.Keys(h.known)))
	slices.Sort(ids)
	ids = slices.Compact(ids)
	gpus := make([]GPU, len(ids))
	session := h.gate.session()
	var wg sync.WaitGroup
	for i, id := range ids {
		known, isKnown := h.known[id]
		if why := h.released[id]; why != "" {
			gpus[i] = known.GPU
			gpus[i].Released = why
			continue
		}
		wg.Go(func() { gpus[i] = h.read(ctx, id, known, isKnown) })
	}
	wg.Wait()
	for i, id := range ids {
		if gpus[i].Released != "" {
			continue
		}
		if gpus[i].Fault == nil {
			h.known[id] = reading{gpus[i], session}
		} else if h.reopenIfClosed(gpus[i].Fault); silent == 0 && !slices.Contains(listed, id) {
			gpus[i].Fault = fmt.Errorf("%w: %w", ErrGone, gpus[i].Fault)
		}
	}
	return gpus
}

// read returns the last good reading with the fault when the GPU does not answer now.
func (h *Hardware) read(ctx context.Context, pci string, known reading, isKnown bool) GPU {
	fresh := make(chan GPU, 1) // not a variable: an abandoned call must not write into what we return
	err := h.call(ctx, pci, "read GPU "+pci, func() error {
		g, err := h.readGPU(pci, known)
		if err == nil {
			fresh <- g
		}
		return err
	})
	if err == nil {
		return <-fresh
	}
	last := known.GPU // a copy: an abandoned call may still read known
	if !isKnown {
		last = GPU{PCI: pci, Minor: -1, Index: -1, NUMA: -1, Model: "unknown"}
	}
	last.Fault = explained(err)
	return last
}

func (h *Hardware) readGPU(pci string, known reading) (GPU, error) {
	handle, err := h.driver.GPUByBusID(longBusID(pci))
	if err != nil {
		return GPU{}, fmt.Errorf("open GPU %s: %w", pci, err)
	}
	g, err := readIdentity(h.driver, handle)
	if err != nil {
		return GPU{}, fmt.Errorf("GPU %s: %w", pci, err)
	}
	if g.Index, err = h.driver.Index(handle); err != nil {
		return GPU{}, fmt.Errorf("GPU %s: read index: %w", pci, err)
	}
	g.NUMA = h.opts.NUMANode(pci)
	total, err := optional(h.driver.Memory(handle))
	if err != nil {
		return GPU{}, fmt.Errorf("GPU %s: read memory: %w", pci, err)
	}
	// A GPU in MIG mode may keep its total from a client without the right to see it: then the last one seen is still true.
	g.MemoryMiB = cmp.Or(total>>20, known.MemoryMiB)
	return h.readMIG(handle, g, known)
}

func (h *Hardware) readMIG(handle GPUHandle, g GPU, known reading) (GPU, error) {
	g.MIG = mig.State{GPU: g.Name(), ModeNeedsReset: g.Architecture == architectureAmpere}
	current, _, err := h.driver.MIGMode(handle)
	if isAbsent(err) || errors.Is(err, ErrInvalidArgument) {
		return g, nil
	}
	if err != nil {
		return GPU{}, fmt.Errorf("%s: read MIG mode: %w", g.Name(), err)
	}
	if g.Geometry, err = h.geometryOf(handle, g, current, known); errors.Is(err, ErrNoPermission) && !current {
		return g, nil // it is whole, and whole it can be used
	} else if err != nil {
		return GPU{}, fmt.Errorf("%s: read MIG profiles: %w", g.Name(), err)
	}
	if !g.IsMIGCapable() {
		return g, nil
	}
	if g.MIG, err = readCut(h.driver, handle, g.Geometry, g.MIG); err != nil {
		return GPU{}, fmt.Errorf("%s: %w", g.Name(), err)
	}
	return g, nil
}

// Forget drops what is known of a GPU that is gone and that nobody uses any more.
func (h *Hardware) Forget(pci string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.known, pci)
}
