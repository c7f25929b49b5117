// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package crash_test

import (
	"strconv"

	"gpuslice/pkg/devices/sim"
)

// write is the nth call of that name in the edit.
type write struct {
	call string
	nth  int
}

// killAt kills the agent in the middle of the write, which then is not done or is done. The driver's own hook, which keeps
// its files up to date, lives on in ours.
func (n *node) killAt(w write, late bool) (killed chan struct{}) {
	killed = make(chan struct{})
	seen := 0
	at := func(call string) {
		if call != w.call || isClosed(killed) {
			return
		}
		if seen++; seen == w.nth {
			pid := n.kill()
			n.driver.Machine().CloseClient(strconv.Itoa(pid)) // or the write could come before the news of the death
			close(killed)
		}
	}
	hooks := sim.Hooks{BeforeEffect: at, AfterEffect: func(string) { n.follow() }}
	if late {
		hooks = sim.Hooks{AfterEffect: func(call string) {
			n.follow()
			at(call)
		}}
	}
	n.driver.Machine().SetHooks(hooks)
	return killed
}

// dieAt does what leads to the write, waits for the agent's death in it and puts the driver's hook back.
func (n *node) dieAt(w write, late bool, where string, lead func()) {
	n.t.Helper()
	killed := n.killAt(w, late)
	lead()
	n.until("kill "+where, func() bool { return isClosed(killed) })
	n.driver.Machine().SetHooks(sim.Hooks{AfterEffect: func(string) { n.follow() }})
	n.follow()
}

func (n *node) follow() {
	if err := n.driver.Sync(); err != nil {
		n.t.Error(err)
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
