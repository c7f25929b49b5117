// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gpuslice/pkg/devices"
)

// What the driver of a machine says that does not care.
const (
	defaultVersion = "595.45.04"
	defaultCUDA    = "13.2"
)

// build makes the machine; all errors of its parts are reported at once.
func (f machineFile) build() (*Machine, error) {
	m := &Machine{
		closed: make(chan struct{}), changed: make(chan struct{}), seed: f.Seed, models: maps.Clone(builtin),
		uuidReuse: f.UUIDReuse == nil || *f.UUIDReuse, bootID: cmp.Or(f.BootID, nameUUID("boot/%d/%d", f.Seed, 0)),
		latencies: map[string]time.Duration{}, counts: map[string]map[string]int{}, systemMemoryMiB: defaultSystemMemory,
	}
	errs := []error{m.buildHost(f), m.buildDriver(f.Driver), m.buildModels(f.Models), m.buildGPUs(f.GPUs, f.Links)}
	for _, call := range slices.Sorted(maps.Keys(f.Latencies)) {
		if err := m.SetLatency(call, f.Latencies[call]); err != nil {
			errs = append(errs, fmt.Errorf("latencies: %w", err))
		}
	}
	for _, fault := range f.Faults {
		errs = append(errs, located(fault.line, m.buildFault(fault)))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *Machine) buildHost(f machineFile) error {
	if f.SystemMemoryMiB != nil {
		m.systemMemoryMiB = *f.SystemMemoryMiB
	}
	platforms := []string{"", devices.Tegra, devices.WSL}
	i, err := choose("platform", f.Platform, platforms)
	m.platform = platforms[i]
	return err
}

var driverStates = []string{driverLoaded: "loaded", driverUnloaded: "unloaded", driverMismatched: "mismatched", driverAbsent: "absent"}

func (m *Machine) buildDriver(f driverFile) error {
	m.version = cmp.Or(f.Version, defaultVersion)
	m.profileNames = f.ProfileNames == nil || *f.ProfileNames
	m.memoryLimits = f.MemoryLimits
	var major, minor int
	if n, err := fmt.Sscanf(cmp.Or(f.CUDA, defaultCUDA), "%d.%d", &major, &minor); err != nil || n != 2 {
		return fmt.Errorf("driver: cuda %q is not of the form 13.2", f.CUDA)
	}
	m.cudaVersion = 1000*major + 10*minor
	state, err := choose("driver: state", f.State, driverStates)
	m.state = driverState(state)
	return err
}

// choose finds a word in a list; the empty word is the first.
func choose(field, word string, valid []string) (int, error) {
	if i := slices.Index(valid, cmp.Or(word, valid[0])); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("%s is %q; valid: %s", field, word, strings.Join(valid, ", "))
}

func (m *Machine) buildModels(files map[string]modelFile) error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(files)) {
		mod, err := files[key].model(key)
		errs = append(errs, located(files[key].line, err))
		m.models[key] = mod
	}
	return errors.Join(errs...)
}

// buildGPUs makes the GPUs in two rounds, because a default depends on what others fix.
func (m *Machine) buildGPUs(files []gpuFile, links linksFile) error {
	var errs []error
	var made []*gpu
	for _, f := range files {
		if f.Count < 1 || f.Count > maxGPUs-len(made) {
			return located(f.line, fmt.Errorf("count is %d; valid: 1 to %d GPUs in all", f.Count, maxGPUs))
		}
		for range f.Count {
			g, err := m.buildGPU(f)
			errs = append(errs, located(f.line, err))
			made = append(made, g)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	m.fillIn(made)
	return errors.Join(m.unique(), m.populate(files, made), m.buildLinks(links))
}

// buildGPU makes a GPU with what the file says of it; what the file leaves open is filled in when all GPUs are known.
func (m *Machine) buildGPU(f gpuFile) (*gpu, error) {
	mod, err := findModel(m.models, f.Model)
	if err != nil {
		return nil, err
	}
	if mod, err = mod.override(f.Profiles); err != nil {
		return nil, err
	}
	answer, err := choose("reset", f.Reset, resetNames)
	if err != nil {
		return nil, err
	}
	g := &gpu{
		model: mod, uuid: f.UUID, subsystem: f.PCISubsystem, minor: devices.NoInstance, numa: devices.NoInstance, persistence: f.Persistence, lost: f.Lost,
		traits: traits{
			swapped: f.SwappedHalves, modeResets: f.ModeChangeResets, renumbers: f.RenumberOnReset,
			noEvents: f.Events != nil && !*f.Events, fixedMinor: f.Minor != nil, resetAnswer: resetKind(answer),
			reservedMiB: mod.memoryMiB / defaultReserve, unsupported: f.Unsupported,
		},
	}
	if err := g.setModes(f); err != nil {
		return nil, err
	}
	return g, g.fix(f)
}

// setModes takes the modes that the file gives, where the model has them.
func (g *gpu) setModes(f gpuFile) error {
	g.mig = len(f.Instances) > 0
	if f.MIG != nil {
		g.mig = *f.MIG
	}
	g.pending = g.mig
	if f.Pending != nil {
		g.pending = *f.Pending
	}
	switch {
	case (g.mig || g.pending) && !g.model.canMIG():
		return fmt.Errorf("mig: %s cannot be cut", g.model.key)
	case g.swapped && g.model.memorySlices <= g.model.computeSlices:
		return fmt.Errorf("swappedHalves: no compute slice is missing on %s", g.model.key)
	}
	return nil
}

// fix takes the names and numbers that the file gives.
func (g *gpu) fix(f gpuFile) error {
	for _, call := range f.Unsupported {
		if err := knownCall(call); err != nil {
			return fmt.Errorf("unsupported: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Signs)) {
		sign, err := ParseSign(name, f.Signs[name])
		if err != nil {
			return fmt.Errorf("signs: %w", err)
		}
		g.say(sign)
	}
	if f.ReservedMiB != nil {
		g.reservedMiB = *f.ReservedMiB
	}
	if f.Minor != nil {
		g.minor = *f.Minor
		if g.minor < 0 {
			return fmt.Errorf("minor is %d; valid: 0 and above", g.minor)
		}
	}
	if f.NUMA != nil {
		g.numa = *f.NUMA
	}
	if f.PCI != "" {
		full, ok := canonicalBusID(f.PCI)
		if !ok {
			return fmt.Errorf("pci %q is not of the form 00000000:65:00.0", f.PCI)
		}
		g.busID = full
	}
	return nil
}

var resetNames = []string{resetWorks: "works", resetUnsupported: "unsupported", resetIgnored: "ignored"}

// fillIn gives the GPUs what the file leaves open.
func (m *Machine) fillIn(made []*gpu) {
	last := ""
	for _, g := range made {
		if g.busID == "" {
			last = nextBusID(made, last)
			g.busID = last
		}
	}
	for _, g := range made {
		m.place(g)
		if g.uuid == "" {
			g.uuid = m.defaultUUID(g.number)
		}
	}
	for i, g := range m.gpus {
		if g.numa == devices.NoInstance {
			g.numa = min(2*i/max(len(made), 2), 1)
		}
	}
	m.numberMinors()
}

func (m *Machine) defaultUUID(number int) string {
	return "GPU-" + nameUUID("gpu/%d/%d", m.seed, number)
}

// nextBusID is the first of the usual bus ids that comes after another and that no GPU has.
func nextBusID(gpus []*gpu, after string) string {
	for domain := 0; ; domain++ {
		for bus := 0x10; bus <= 0xF8; bus += 8 {
			id := fmt.Sprintf("%08X:%02X:00.0", domain, bus)
			if id > after && !slices.ContainsFunc(gpus, func(g *gpu) bool { return g.busID == id }) {
				return id
			}
		}
	}
}

// unique refuses names that two GPUs have.
func (m *Machine) unique() error {
	var errs []error
	minors, uuids, busIDs := map[int]bool{}, map[string]bool{}, map[string]bool{}
	for _, g := range m.gpus {
		if busIDs[g.busID] {
			errs = append(errs, fmt.Errorf("pci %s is given twice", g.busID))
		}
		if minors[g.minor] {
			errs = append(errs, fmt.Errorf("minor %d is given twice", g.minor))
		}
		if uuids[g.uuid] {
			errs = append(errs, fmt.Errorf("uuid %s is given twice", g.uuid))
		}
		minors[g.minor], uuids[g.uuid], busIDs[g.busID] = true, true, true
	}
	return errors.Join(errs...)
}

func (m *Machine) buildFault(f faultFile) error {
	form, err := ParseForm(cmp.Or(f.Form, formNames[Refused]))
	if err != nil {
		return err
	}
	code, err := devices.ParseCode(cmp.Or(f.Code, "UNKNOWN"))
	if err != nil {
		return err
	}
	_, err = m.Fail(Fault{Call: f.Call, Client: f.Client, GPUs: f.GPUs, Nth: f.Nth, Code: code, Form: form})
	return err
}
