// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package drivertest_test

import (
	"testing"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/devicestest"
	"gpuslice/pkg/devices/sim"
)

// The adapter keeps the contract on the library, with every session in a process of its own. A line that could not be asked
// would prove nothing.
func TestAdapterKeepsTheContract(t *testing.T) {
	devicestest.Run(t, func(t *testing.T) devicestest.Subject {
		t.Cleanup(func() {
			if t.Skipped() {
				t.Error("skipped")
			}
		})
		return startNode(t, mixed).subject()
	})
}

func (n node) subject() devicestest.Subject {
	return devicestest.Subject{Controls: controls{n}, Open: func(c devicestest.Client) devices.Driver {
		role := "client"
		if c.Unprivileged {
			role = "nobody"
		}
		return n.process(role, c.PIDNamespace != "").Driver()
	}}
}

// controls reach into the machine behind the daemon.
type controls struct{ node }

func (c controls) number(busID string) int {
	for _, g := range c.Machine().GPUs() {
		if g.BusID == busID {
			return g.Number
		}
	}
	c.t.Fatalf("no GPU at %s", busID)
	return devices.NoInstance
}

func (c controls) Lose(busID string) error  { return c.Machine().Lose(c.number(busID)) }
func (c controls) Reset(busID string) error { return c.Machine().Reset(c.number(busID)) }

func (c controls) StartProcess(busID, namespace string, p devices.Process) error {
	return c.Machine().StartProcess(c.number(busID), sim.Process{
		PID: p.PID, Namespace: namespace, Kind: devices.ComputeProcess, MemoryBytes: p.MemoryBytes, GI: p.GI, CI: p.CI,
	})
}

func (c controls) XID(busID string, xid uint64, gi, ci int) error {
	return c.Machine().XID(c.number(busID), xid, gi, ci)
}
