// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devicestest

import (
	"fmt"
	"testing"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

// node has one GPU for each question of the contract: two that toggle their mode, one of them cut already, one that needs a
// reset, and one that cannot be cut.
const node = `
gpus:
- {model: h100-sxm5-80gb}
- {model: h100-sxm5-80gb, instances: [3g.40gb@4, "2g.20gb@0{1c 1c}", "1g.10gb@2{}"]}
- {model: a100-sxm4-40gb}
- {model: l40s}
`

// simNode is a simulated node under contract.
type simNode struct {
	t       *testing.T
	machine *sim.Machine
}

func newNode(t *testing.T) simNode {
	t.Helper()
	m, err := sim.ParseYAML([]byte(node))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return simNode{t: t, machine: m}
}

func (n simNode) subject() Subject {
	return Subject{Open: n.open, Controls: n}
}

func (n simNode) open(c Client) devices.Driver {
	return n.machine.Open(sim.Client{Name: c.Name, PIDNamespace: c.PIDNamespace, Root: !c.Unprivileged})
}

func (n simNode) number(busID string) int {
	for _, g := range n.machine.GPUs() {
		if g.BusID == busID {
			return g.Number
		}
	}
	n.t.Fatalf("no GPU at %s", busID)
	return -1
}

func (n simNode) Lose(busID string) error  { return n.machine.Lose(n.number(busID)) }
func (n simNode) Reset(busID string) error { return n.machine.Reset(n.number(busID)) }

func (n simNode) StartProcess(busID, namespace string, p devices.Process) error {
	return n.machine.StartProcess(n.number(busID), sim.Process{
		PID: p.PID, Namespace: namespace, Kind: devices.ComputeProcess, MemoryBytes: p.MemoryBytes, GI: p.GI, CI: p.CI,
	})
}

func (n simNode) XID(busID string, xid uint64, gi, ci int) error {
	return n.machine.XID(n.number(busID), xid, gi, ci)
}

// record keeps what a contract run finds.
type record struct {
	broken  map[string]string
	skipped map[string]string
}

func newRecord() *record { return &record{broken: map[string]string{}, skipped: map[string]string{}} }

func (r *record) Errorf(line, format string, args ...any) {
	r.broken[line] = fmt.Sprintf(format, args...)
}

func (r *record) Skipf(line, format string, args ...any) {
	r.skipped[line] = fmt.Sprintf(format, args...)
}
