// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
	"gpuslice/test/cluster/node"
)

// plantedIn is the round in which a fault is planted: late enough that a first look has been taken.
const plantedIn = 1

// planted plants the fault that was asked for.
func (l *life) planted(number int) error {
	if number != plantedIn {
		return nil
	}
	switch l.plant {
	case "":
		return nil
	case "leak-socket":
		return leakSocket()
	case "leak-gi":
		return l.leakInstance()
	case "grow":
		var err error
		l.swell, err = startBalloon()
		return err
	default:
		return fmt.Errorf("SOAK_PLANT=%s is not one of leak-socket, leak-gi, grow", l.plant)
	}
}

// leakSocket leaves a socket as a process does that is killed.
func leakSocket() error {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(node.DevicePluginDir, "gpuslice-planted.sock"), Net: "unix"})
	if err != nil {
		return err
	}
	listener.SetUnlinkOnClose(false)
	return listener.Close()
}

// leakInstance leaves an instance on the GPU that nobody may change.
func (l *life) leakInstance() error {
	const client = "planter"
	m := l.Driver.Machine()
	defer m.CloseClient(client)
	d := m.Open(sim.Admin(client))
	if err := d.Init(); err != nil {
		return err
	}
	gpu, err := d.GPUByIndex(spare)
	if err != nil {
		return err
	}
	p, err := d.GIProfile(gpu, 0)
	if err != nil {
		return err
	}
	_, err = d.CreateGI(gpu, p.ID, devices.Placement{Start: 0, Size: 1})
	return err
}

// balloonRole is what this program is when it stands in for an agent whose memory grows.
const balloonRole = "balloon"

type balloonProcess struct{ cmd *exec.Cmd }

func (b *balloonProcess) pid() int { return b.cmd.Process.Pid }

func startBalloon() (*balloonProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, balloonRole)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start balloon: %w", err)
	}
	return &balloonProcess{cmd}, nil
}

func (l *life) endBalloon() {
	if l.swell != nil {
		_ = l.swell.cmd.Process.Kill() // it ends in no other way
		_ = l.swell.cmd.Wait()
	}
}

// balloon takes a megabyte every now and then, for ever.
func balloon() {
	var held [][]byte
	for range time.Tick(20 * time.Millisecond) {
		page := make([]byte, 1<<20)
		for i := range page {
			page[i] = 1
		}
		held = append(held, page)
		if len(held) > 1<<10 {
			return
		}
	}
}
