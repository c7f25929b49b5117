// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

// many is more words than anybody gives.
const many = 99

// controls name GPUs by their number: the order of the machine file, never reused.
var controls = []control{
	{"dump", "", 0, 0, func(d *Daemon, _ words) (string, error) { return d.node.Machine.Dump(), nil }},
	{"gpus", "", 0, 0, (*Daemon).listGPUs},
	{"sessions", "", 0, 0, (*Daemon).listSessions},
	{"calls", "PID", 1, 1, (*Daemon).listCalls},
	{"log", "", 0, 0, (*Daemon).listLog},
	{"lose", "GPU", 1, 1, onNumber((*sim.Machine).Lose)},
	{"restore", "GPU", 1, 1, onNumber((*sim.Machine).Restore)},
	{"reset", "GPU", 1, 1, onNumber((*sim.Machine).Reset)},
	{"persistence", "GPU on|off", 2, 2, (*Daemon).controlPersistence},
	{"memory-limits", "GPU", 1, 1, (*Daemon).listMemoryLimits},
	{"memory-limit", "GPU CGROUP BYTES|none", 3, 3, (*Daemon).controlMemoryLimit},
	{"xid", "GPU XID [GI CI] [action=reset]", 2, 5, (*Daemon).controlXID},
	{"sign", "GPU NAME VALUE", 3, 3, (*Daemon).controlSign},
	{"event", "GPU TYPE DATA", 3, 3, (*Daemon).controlEvent},
	{"start-process", "GPU PID [slot=3g.40gb@4] [ci=0] [kind=compute|graphics|mps] [mib=N] [namespace=N/N]", 2, many, (*Daemon).startProcess},
	{"stop-process", "GPU PID", 2, 2, (*Daemon).stopProcess},
	{"fail", "[call=NAME] [client=PID] [gpus=0,1] [nth=N] [code=IN_USE] [form=refused|done|hung]", 0, many, (*Daemon).fail},
	{"heal", "FAULT|all", 1, 1, (*Daemon).heal},
	{"latency", "CALL DURATION", 2, 2, (*Daemon).latency},
	{"add", "MODEL [BUSID]", 1, 2, (*Daemon).addGPU},
	{"remove", "GPU", 1, 1, onNumber((*sim.Machine).RemoveGPU)},
	{"return", "GPU [BUSID]", 1, 2, (*Daemon).returnGPU},
	{"reboot", "", 0, 0, (*Daemon).reboot},
	{"unload", "", 0, 0, (*Daemon).unload},
	{"load", "[VERSION]", 0, 1, (*Daemon).load},
	{"mismatch", "", 0, 0, (*Daemon).mismatch},
	{"kill-session", "PID", 1, 1, (*Daemon).killSession},
}

// onNumber is a control of one GPU.
func onNumber(do func(*sim.Machine, int) error) func(*Daemon, words) (string, error) {
	return func(d *Daemon, w words) (string, error) {
		n, err := w.number(0)
		if err != nil {
			return "", err
		}
		return "", do(d.node.Machine, n)
	}
}

func (d *Daemon) listGPUs(words) (string, error) {
	var b strings.Builder
	for _, g := range d.node.Machine.GPUs() {
		fmt.Fprintf(&b, "%d minor=%d %s %s %s", g.Number, g.Minor, g.Model, g.BusID, g.UUID)
		for _, i := range g.Instances {
			fmt.Fprintf(&b, " %s=gi%d/ci%d", i.Slot, i.GI, i.CI)
		}
		b.WriteString("\n")
	}
	return b.String(), nil
}

func (d *Daemon) listSessions(words) (string, error) {
	d.mu.Lock()
	clients := slices.SortedFunc(maps.Values(d.clients), func(a, b *client) int { return cmp.Compare(a.pid, b.pid) })
	d.mu.Unlock()
	var b strings.Builder
	for _, c := range clients {
		state := "closed"
		if _, err := c.session(); err == nil {
			state = "open"
		}
		fmt.Fprintf(&b, "%d %s root=%t namespace=%q\n", c.pid, state, c.root, c.namespace)
	}
	return b.String(), nil
}

func (d *Daemon) listCalls(w words) (string, error) {
	pid, err := w.number(0)
	if err != nil {
		return "", err
	}
	counts := d.Calls(pid)
	var b strings.Builder
	for _, symbol := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "%s %d\n", symbol, counts[symbol])
	}
	return b.String(), nil
}

// listLog prints one line per attempt: client, call, GPU, slot, what was answered.
func (d *Daemon) listLog(words) (string, error) {
	var b strings.Builder
	for _, a := range d.node.Machine.Log() {
		answer := "ok"
		if a.Err != nil {
			answer = a.Err.Error()
		}
		fmt.Fprintf(&b, "%s %s gpu=%d %s done=%t %s\n", cmp.Or(a.Client, "-"), a.Call, a.GPU, cmp.Or(a.Slot, "-"), a.Done, answer)
	}
	return b.String(), nil
}

func (d *Daemon) controlPersistence(w words) (string, error) {
	n, err := w.number(0)
	if err != nil {
		return "", err
	}
	on, err := w.choice(1, "off", "on")
	if err != nil {
		return "", err
	}
	return "", d.node.Machine.Persistence(n, on == 1)
}

func (d *Daemon) controlXID(w words) (string, error) {
	n, xid, err := w.twoNumbers()
	if err != nil {
		return "", err
	}
	gi, ci := devices.NoInstance, devices.NoInstance
	action, told := "", false
	if action, told = strings.CutPrefix(w[len(w)-1], "action="); told {
		w = w[:len(w)-1]
	}
	if len(w) > 2 {
		if gi, err = w.number(2); err != nil {
			return "", err
		}
	}
	if len(w) > 3 {
		if ci, err = w.number(3); err != nil {
			return "", err
		}
	}
	if !told {
		return "", d.node.Machine.XID(n, uint64(xid), gi, ci)
	}
	sign, err := sim.ParseSign("recovery-action", action)
	if err != nil {
		return "", err
	}
	return "", d.node.Machine.Break(n, uint64(xid), gi, ci, sign.Value)
}

func (d *Daemon) controlEvent(w words) (string, error) {
	n, kind, err := w.twoNumbers()
	if err != nil {
		return "", err
	}
	data, err := w.number(2)
	if err != nil {
		return "", err
	}
	event := devices.Event{Type: uint64(kind), Data: uint64(data), GI: devices.NoInstance, CI: devices.NoInstance}
	return "", d.node.Machine.Notify(n, event)
}

func (d *Daemon) killSession(w words) (string, error) {
	pid, err := w.number(0)
	if err != nil {
		return "", err
	}
	d.node.Machine.CloseClient(numberText(pid))
	return "", nil
}
