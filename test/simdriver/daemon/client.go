// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"slices"
	"strconv"
	"sync"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

// client is one process. All its connections share one session of the machine; with the last connection it ends, and the
// machine lets go of what it held.
type client struct {
	peer
	daemon      *Daemon
	connections int // guarded by the daemon's lock

	initMu sync.Mutex // one Init or Shutdown at a time

	mu     sync.Mutex // guards what follows
	driver devices.Driver
	inits  int
	view   view
	places map[uint64]place
	sets   map[uint64]devices.EventSet
	nodes  map[string]bool // device nodes that were opened once
	held   map[string]bool // device nodes of GPUs that the process keeps open
}

// view is what the session sees of the node's GPUs.
type view struct {
	all     []sim.GPU // at its Init, by index
	visible []int     // indexes of those whose nodes can be opened
}

func (v view) everything() bool { return len(v.visible) == len(v.all) }

func (v view) sees(number int) bool {
	return slices.ContainsFunc(v.visible, func(i int) bool { return v.all[i].Number == number })
}

func (v view) number(index int) int {
	if index < 0 || index >= len(v.all) {
		return devices.NoInstance
	}
	return v.all[index].Number
}

// place is where the thing is that a handle names, in words of the machine's controls.
type place struct {
	number int    // of the GPU
	mig    bool   // a MIG device, a part of the GPU
	gi, ci int    // NoInstance as long as nobody asked
	parent uint64 // the handle through which it was found
}

func onGPU(number int) place {
	return place{number: number, gi: devices.NoInstance, ci: devices.NoInstance}
}

func (c *client) name() string { return strconv.Itoa(c.pid) }

// session is the open session; before Init there is none.
func (c *client) session() (devices.Driver, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.driver == nil {
		return nil, devices.ErrUninitialized
	}
	return c.driver, nil
}

func (c *client) sight() view {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.view
}

func (c *client) begin(d devices.Driver, v view) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.driver, c.view, c.inits = d, v, 1
	c.places, c.sets = map[uint64]place{}, map[uint64]devices.EventSet{}
}

// end forgets the session; the caller ends it on the machine.
func (c *client) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.driver, c.view, c.inits = nil, view{}, 0
	c.places, c.sets, c.nodes, c.held = nil, nil, map[string]bool{}, map[string]bool{}
}

// firstHold says whether a device node is to be kept open now for the first time.
func (c *client) firstHold(node string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.held[node]
	c.held[node] = true
	return first
}

// again counts one more Init, or with -1 one less, and says how many are left.
func (c *client) again(by int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inits += by
	return c.inits
}

// remember notes where a handle's thing is, and returns the handle.
func (c *client) remember(h uint64, p place) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.places != nil {
		c.places[h] = p
	}
	return h
}

// whereIs is the opposite of remember.
func (c *client) whereIs(h uint64) place {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.places[h]; ok {
		return p
	}
	return onGPU(devices.NoInstance)
}

func (c *client) keepSet(h uint64, set devices.EventSet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sets != nil {
		c.sets[h] = set
	}
}

func (c *client) set(h uint64) (devices.EventSet, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if set, ok := c.sets[h]; ok {
		return set, nil
	}
	return nil, devices.ErrInvalidArgument
}

// gpu finds a GPU on the machine as it is now. One that somebody found before and that is gone now is lost.
func (d *Daemon) gpu(number int) (sim.GPU, error) {
	g, ok := find(d.node.Machine.GPUs(), func(g sim.GPU) bool { return g.Number == number })
	switch {
	case number == devices.NoInstance:
		return sim.GPU{}, devices.ErrNotFound
	case !ok:
		return sim.GPU{}, devices.ErrLost
	}
	return g, nil
}

// migDevices are the instances of a GPU that are MIG devices, in the order of their index.
func migDevices(g sim.GPU) []sim.Instance {
	return slices.DeleteFunc(slices.Clone(g.Instances), func(i sim.Instance) bool { return i.CI == devices.NoInstance })
}
