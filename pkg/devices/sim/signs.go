// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gpuslice/pkg/devices"
)

// What a GPU says of its own health. A reset fulfils a demand for a reset and remaps rows that wait for it; a load of the driver or
// a boot fulfils every demand; rows that could not be remapped stay so. A demand is taken back by a Sign as well, which no real
// driver does.

// ampere is the generation of nvml.h in which rows that are remapped took the place of pages that are retired.
const ampere = 7

// recoverySince is the first driver branch that says what a GPU needs.
const recoverySince = 565

// actionNames are the recovery actions of nvml.h by their numbers.
var actionNames = []string{"none", "reset", "reboot", "drain-p2p", "drain-and-reset", "imex-domain", "bus-reset", "system-reboot"}

// byReset are the demands that a reset fulfils.
var byReset = []uint64{1, 3, 4}

// signFields are the names of what a GPU says, with the fields of nvml.h.
var signFields = map[string]int{
	"recovery-action": devices.FieldRecoveryAction, "uncorrected": devices.FieldUncorrected,
	"remap-pending": devices.FieldRemapPending, "remap-failed": devices.FieldRemapFailed,
	"retired-pending": devices.FieldRetiredPending, "power-limited": devices.FieldPowerLimited, "heat-limited": devices.FieldHeatLimited,
}

// Sign is one thing that a GPU says of itself from now on.
type Sign struct {
	Field int
	Value uint64
}

// ParseSign reads a name such as "recovery-action" and a number or, for that one, a name such as "reset".
func ParseSign(name, value string) (Sign, error) {
	field, ok := signFields[name]
	if !ok {
		return Sign{}, fmt.Errorf("unknown sign %q; valid signs: %s", name, strings.Join(slices.Sorted(maps.Keys(signFields)), ", "))
	}
	if i := slices.Index(actionNames, value); field == devices.FieldRecoveryAction && i >= 0 {
		return Sign{field, uint64(i)}, nil
	}
	n, err := strconv.ParseUint(value, 0, 64)
	if err != nil {
		return Sign{}, fmt.Errorf("sign %s: %q is no number; recovery actions are also %s", name, value, strings.Join(actionNames, ", "))
	}
	return Sign{field, n}, nil
}

// Sign changes what a GPU says of itself. Another recovery action is told to everybody who registered for it.
func (m *Machine) Sign(number int, s Sign) error {
	news := false
	err := m.onGPU(number, func(g *gpu) error {
		news = s.Field == devices.FieldRecoveryAction && g.signs[s.Field] != s.Value
		g.say(s)
		return nil
	})
	if err != nil || !news || !m.hasRecoveryAction() {
		return err
	}
	return m.Notify(number, devices.Event{
		Type: devices.EventRecoveryAction, Data: s.Value, GI: devices.NoInstance, CI: devices.NoInstance,
	})
}

// Break is a fault as a driver tells it: the GPU needs something by the time the XID is told, and that it does is told after it.
func (m *Machine) Break(number int, xid uint64, gi, ci int, action uint64) error {
	err := m.onGPU(number, func(g *gpu) error {
		g.say(Sign{devices.FieldRecoveryAction, action})
		return nil
	})
	if err == nil {
		err = m.XID(number, xid, gi, ci)
	}
	if err != nil || !m.hasRecoveryAction() {
		return err
	}
	return m.Notify(number, devices.Event{Type: devices.EventRecoveryAction, Data: action, GI: devices.NoInstance, CI: devices.NoInstance})
}

func (g *gpu) say(s Sign) {
	if g.signs == nil {
		g.signs = map[int]uint64{}
	}
	g.signs[s.Field] = s.Value
}

// fulfil is what a reset, or more than that, does to what a GPU says.
func (g *gpu) fulfil(reload bool) {
	for _, field := range []int{devices.FieldUncorrected, devices.FieldRemapPending, devices.FieldRetiredPending, devices.FieldPowerLimited, devices.FieldHeatLimited} {
		delete(g.signs, field)
	}
	if reload || slices.Contains(byReset, g.signs[devices.FieldRecoveryAction]) {
		delete(g.signs, devices.FieldRecoveryAction)
	}
}

func (m *Machine) hasRecoveryAction() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.branch() >= recoverySince
}

// branch is the driver's first number; 0 = none. The caller holds the lock.
func (m *Machine) branch() int {
	text, _, _ := strings.Cut(m.version, ".")
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// Fields implements devices.FieldReader.
func (s *session) Fields(h devices.GPUHandle, ids []int) ([]devices.Field, error) {
	return ask(s, "Fields", h, func(r ref) ([]devices.Field, error) {
		fields := make([]devices.Field, len(ids))
		for i, id := range ids {
			fields[i] = s.machine.field(r.gpu, id)
		}
		return fields, nil
	}, gpuRef)
}

// field is one answer.
func (m *Machine) field(g *gpu, id int) devices.Field {
	old := g.model.architecture < ampere
	known := slices.Contains(slices.Collect(maps.Values(signFields)), id)
	switch {
	case !known,
		id == devices.FieldRecoveryAction && m.branch() < recoverySince,
		old && (id == devices.FieldRemapPending || id == devices.FieldRemapFailed),
		!old && id == devices.FieldRetiredPending:
		return devices.Field{Code: devices.ErrNotSupported}
	}
	return devices.Field{Value: g.signs[id]}
}
