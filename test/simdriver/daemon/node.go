// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

// Node is a machine with what is known of it beforehand.
//
// The data sheet is read from a twin: a second machine made from the same description, without faults. So what the daemon
// wants to know is neither counted among the calls of clients nor failed by faults that are meant for them.
type Node struct {
	Machine *sim.Machine
	loaded  bool // as the description has it

	twin *sim.Machine
	data dataSheet
}

// dataSheet is what a session of the twin's administrator reads.
type dataSheet struct {
	version  string
	cuda     int
	profiles map[int][]devices.GIProfile // by number of the GPU
	memory   map[int]uint64              // bytes, by number of the GPU
}

// Load makes the node of a spec: "8xh100-sxm5-80gb", or "@machine.yaml".
func Load(spec string) (*Node, error) {
	if path, isFile := strings.CutPrefix(spec, "@"); isFile {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read machine file: %w", err)
		}
		return LoadYAML(text)
	}
	machine, err := sim.Parse(spec)
	if err != nil {
		return nil, err
	}
	twin, err := sim.Parse(spec)
	if err != nil {
		return nil, err
	}
	return newNode(machine, twin, true)
}

// LoadYAML makes the node of a machine file.
func LoadYAML(text []byte) (*Node, error) {
	machine, err := sim.ParseYAML(text)
	if err != nil {
		return nil, err
	}
	harmless, loaded, err := withoutTrouble(text)
	if err != nil {
		return nil, err
	}
	twin, err := sim.ParseYAML(harmless)
	if err != nil {
		return nil, err
	}
	return newNode(machine, twin, loaded)
}

// withoutTrouble takes out of a machine file what keeps a session from reading it, and says whether its driver is loaded.
func withoutTrouble(text []byte) (harmless []byte, loaded bool, err error) {
	file := map[string]any{}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, false, fmt.Errorf("decode machine file: %w", err)
	}
	loaded = true
	delete(file, "faults")
	delete(file, "latencies")
	if driver, ok := file["driver"].(map[string]any); ok {
		loaded = driver["state"] != "unloaded"
		delete(driver, "state")
	}
	gpus, _ := file["gpus"].([]any)
	for _, g := range gpus {
		if gpu, ok := g.(map[string]any); ok {
			delete(gpu, "lost")
		}
	}
	harmless, err = yaml.Marshal(file)
	return harmless, loaded, err
}

func newNode(machine, twin *sim.Machine, loaded bool) (*Node, error) {
	n := &Node{Machine: machine, twin: twin, loaded: loaded}
	return n, n.read()
}

// read fills the data sheet.
func (n *Node) read() error {
	d := n.twin.Open(sim.Admin("data sheet"))
	if err := d.Init(); err != nil {
		return fmt.Errorf("read data sheet: %w", err)
	}
	version, err := d.DriverVersion()
	cuda, cudaErr := d.CUDADriverVersion()
	sheet := dataSheet{version: version, cuda: cuda, profiles: map[int][]devices.GIProfile{}, memory: map[int]uint64{}}
	errs := []error{err, cudaErr}
	for _, g := range n.twin.GPUs() {
		errs = append(errs, sheet.readGPU(d, g))
	}
	if err := errors.Join(append(errs, d.Shutdown())...); err != nil {
		return fmt.Errorf("read data sheet: %w", err)
	}
	n.data = sheet
	return nil
}

func (s dataSheet) readGPU(d devices.Driver, g sim.GPU) error {
	h, err := d.GPUByIndex(g.Index)
	if err != nil {
		return err
	}
	if s.memory[g.Number], err = d.Memory(h); err != nil && !errors.Is(err, devices.ErrNotSupported) {
		return err
	}
	for enum := range devices.GIProfileEnums {
		p, err := d.GIProfile(h, enum)
		if errors.Is(err, devices.ErrNotSupported) {
			continue
		}
		if err != nil {
			return err
		}
		s.profiles[g.Number] = append(s.profiles[g.Number], p)
	}
	return nil
}

// plug puts a GPU into the machine and into the twin.
func (n *Node) plug(model, busID string) (number int, err error) {
	number, err = n.Machine.AddGPU(model, busID)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(n.Machine.GPUs(), func(g sim.GPU) bool { return g.Number == number })
	same, err := n.twin.AddGPU(model, n.Machine.GPUs()[i].BusID)
	if err != nil || same != number {
		return 0, fmt.Errorf("the data sheet has GPU %d for %d: %w", same, number, err)
	}
	return number, n.read()
}

// find is the first element that matches.
func find[T any](in []T, match func(T) bool) (T, bool) {
	if i := slices.IndexFunc(in, match); i >= 0 {
		return in[i], true
	}
	var none T
	return none, false
}
