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
	"sync/atomic"
	"time"
)

// ErrGone is the fault of a GPU that the driver no longer counts.
var ErrGone = errors.New("the driver no longer lists it")

// Options of Hardware; zero values are good on a real node.
type Options struct {
	// CallLimit bounds every operation on one GPU; default 30 s, three times the slowest look-up reported under load.
	CallLimit time.Duration
	// NUMANode answers for a PCI address; negative means unknown. Default: unknown.
	NUMANode func(pci string) int
	// SystemMemory is the host's memory in MiB, which GPUs without memory of their own work in; 0 means unknown. Default: unknown.
	SystemMemory func() uint64
	// Bound lists the PCI addresses that the kernel has bound to the driver; nil means unknown. Default: unknown.
	Bound func() []string
	// Load names the load of the driver's kernel module, see Node.Load. Default: unknown.
	Load func() string
	// Platforms tells what kind of machine this is; default: one whose GPUs can be handed out.
	Platforms Platforms
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

	// initialised says that the driver has a session of ours; it may come long after we gave up waiting for it.
	initialised atomic.Bool
	outdated    atomic.Bool

	mu       sync.Mutex // guards what follows
	opened   bool
	bound    []string           // what the kernel had bound to the driver when the session was opened
	known    map[string]reading // last good one by PCI address
	released map[string]string  // why, by PCI address; AllGPUs concerns every GPU
	linkage  linkage
	listed   listing
	lost     map[string]int // by PCI address: the session in which a GPU that does not answer was lost first

	polled polled
}

// listing is every GPU that a session of the driver found, by PCI address.
type listing struct {
	ids     []string
	session int
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
	if opts.SystemMemory == nil {
		opts.SystemMemory = func() uint64 { return 0 }
	}
	if opts.Bound == nil {
		opts.Bound = func() []string { return nil }
	}
	if opts.Load == nil {
		opts.Load = func() string { return "" }
	}
	if opts.Platforms == nil {
		opts.Platforms = onlyDiscrete{}
	}
	if opts.Holders == nil {
		opts.Holders = noHolders{}
	}
	return &Hardware{driver: d, opts: opts, bounds: newBounds(opts.CallLimit), known: map[string]reading{}, lost: map[string]int{}}
}

// Snapshot reads the whole node, opening the driver first if need be. It fails only when the driver as a whole does not
// answer: a GPU that does not is in the Node with its Fault, and costs the others nothing (P3).
func (h *Hardware) Snapshot(ctx context.Context) (Node, error) { return h.look(ctx, false) }

// Glance is Snapshot without what only a GPU that shall be cut needs: how it can be. Most calls of a first look are about that.
func (h *Hardware) Glance(ctx context.Context) (Node, error) { return h.look(ctx, true) }

func (h *Hardware) look(ctx context.Context, glance bool) (Node, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released[AllGPUs] != "" {
		if !h.opened { // the driver may have answered after all, when nobody wanted it any more
			_ = h.closeSession(ctx)
		}
		return h.remembered(), nil
	}
	h.followKernel(ctx)
	h.proveLost(ctx)
	if err := h.open(ctx); err != nil {
		return Node{}, err
	}
	node := Node{Load: h.opts.Load()}
	ids := []string{}
	silent := 0
	err := h.call(ctx, "", "read the driver's list of GPUs", func() (err error) {
		if node.DriverVersion, err = optional(h.driver.DriverVersion()); err != nil {
			return fmt.Errorf("read driver version: %w", err)
		}
		if node.CUDAVersion, err = optional(h.driver.CUDADriverVersion()); err != nil {
			return fmt.Errorf("read CUDA version: %w", err)
		}
		ids, silent, err = h.list(&node)
		return err
	})
	if err != nil {
		h.reopenIfClosed(ctx, err)
		return Node{}, err
	}
	node.GPUs = h.readAll(ctx, ids, silent, glance)
	node.Silent = max(0, silent-(len(node.GPUs)-len(ids))) // those that were known before are among the GPUs
	node.GPUs = h.withoutMoved(node.GPUs)
	node.Links = h.linkage.matrix
	return node, nil
}

// Exhausted says that so many calls hang that a new process is the better remedy (P11).
func (h *Hardware) Exhausted() bool {
	h.mu.Lock()
	gpus := len(h.known)
	h.mu.Unlock()
	return h.bounds.exhausted(gpus)
}

// list returns the PCI addresses that the driver enumerates, and how many GPUs it counts that do not say theirs: such a
// one is known from before, or not at all. One that has none, because it is on no bus, is noted in the node.
func (h *Hardware) list(node *Node) (ids []string, silent int, err error) {
	if len(h.released) > 0 { // a look-up by index would take hold of the released ones
		return h.stillBound(h.notReleased()), 0, nil
	}
	n, err := h.driver.GPUCount()
	if err != nil {
		return nil, 0, fmt.Errorf("count GPUs: %w", err)
	}
	if n == len(h.listed.ids) && h.listed.session == h.gate.session() { // a session goes on with the GPUs that it found at its start
		return h.listed.ids, 0, nil
	}
	for i := range n {
		gpu, err := h.driver.GPUByIndex(i)
		if err != nil {
			silent++
			continue
		}
		id, err := h.driver.BusID(gpu)
		if err == nil {
			ids = append(ids, shortBusID(id))
			continue
		}
		if product, err := h.driver.Name(gpu); err == nil && h.opts.Platforms.IsIntegrated(product) {
			node.Unsupported = append(node.Unsupported, integrated(product))
			continue
		}
		silent++
	}
	if len(ids) == n {
		h.listed = listing{ids, h.gate.session()}
	}
	return ids, silent, nil
}

// readAll reads every GPU at once, so that one that hangs does not delay the others. A known GPU that is not listed is gone
// only when every GPU that the driver counts has said its address.
func (h *Hardware) readAll(ctx context.Context, listed []string, silent int, glance bool) []GPU {
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
			gpus[i].Released, gpus[i].Polled = why, h.polled.has(id)
			continue
		}
		wg.Go(func() { gpus[i] = h.read(ctx, id, known, isKnown, glance) })
	}
	wg.Wait()
	for i, id := range ids {
		if gpus[i].Released != "" {
			continue
		}
		if gpus[i].Fault == nil {
			h.known[id] = reading{gpus[i], session}
		} else if h.reopenIfClosed(ctx, gpus[i].Fault); silent == 0 && !slices.Contains(listed, id) {
			gpus[i].Fault = fmt.Errorf("%w: %w", ErrGone, gpus[i].Fault)
		}
		gpus[i].Polled = h.polled.has(id)
		h.noteLost(&gpus[i])
	}
	return gpus
}

// read returns the last good reading with the fault when the GPU does not answer now.
func (h *Hardware) read(ctx context.Context, pci string, known reading, isKnown, glance bool) GPU {
	fresh := make(chan GPU, 1) // not a variable: an abandoned call must not write into what we return
	err := h.call(ctx, pci, "read GPU "+pci, func() error {
		g, err := h.readGPU(pci, known, glance)
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

// Forget drops what is known of a GPU that is gone and that nobody uses any more.
func (h *Hardware) Forget(pci string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.known, pci)
}

// withoutMoved leaves out what is known of a GPU at an address where it is no more, when it has come back at another one: it is
// one device, whose name is its UUID.
func (h *Hardware) withoutMoved(gpus []GPU) []GPU {
	return slices.DeleteFunc(gpus, func(old GPU) bool {
		moved := errors.Is(old.Fault, ErrGone) && slices.ContainsFunc(gpus, func(g GPU) bool {
			return g.Fault == nil && g.UUID == old.UUID && g.PCI != old.PCI
		})
		if moved {
			delete(h.known, old.PCI)
		}
		return moved
	})
}
