// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package timeslice knows how one device is offered several times and which shares to hand out first.
//
// It is pure: no I/O, no log, no clock, standard library only. A Share is one of n uses of a device; its id is the device's
// id, "::" and a number from 0, as NVIDIA's device plugin writes it, so that tools which read such ids keep working.
package timeslice

import (
	"fmt"
	"strconv"
	"strings"
)

const separator = "::"

// Share is one of n uses of a device.
type Share struct {
	Device string // UUID of the GPU or MIG device
	N      int    // from 0
}

func (s Share) String() string { return s.Device + separator + strconv.Itoa(s.N) }

// ParseShare reads an id. An id without a number is the device itself: ok is false.
func ParseShare(id string) (s Share, ok bool) {
	device, number, found := strings.Cut(id, separator)
	n, err := strconv.Atoi(number)
	if !found || err != nil || n < 0 || device == "" || number != strconv.Itoa(n) {
		return Share{}, false
	}
	return Share{Device: device, N: n}, true
}

// DeviceOf returns the device that an id, of a share or of a device, stands for.
func DeviceOf(id string) string {
	if s, ok := ParseShare(id); ok {
		return s.Device
	}
	return id
}

// Shares lists the n shares of a device.
func Shares(device string, n int) []Share {
	all := make([]Share, n)
	for i := range all {
		all[i] = Share{Device: device, N: i}
	}
	return all
}

// Devices lists the devices behind ids, each once, in order of first mention: two shares of one GPU reach the runtime once.
func Devices(ids []string) []string {
	seen := map[string]bool{}
	devices := []string{}
	for _, id := range ids {
		if d := DeviceOf(id); !seen[d] {
			seen[d] = true
			devices = append(devices, d)
		}
	}
	return devices
}

// Policy says which device to take the next share from.
type Policy string

// Spread takes from the device with the fewest shares in use, Pack from the one with the most.
const (
	Spread Policy = "spread"
	Pack   Policy = "pack"
)

// ParsePolicy reads a policy; empty means spread.
func ParsePolicy(text string) (Policy, error) {
	switch p := Policy(text); p {
	case "":
		return Spread, nil
	case Spread, Pack:
		return p, nil
	default:
		return "", fmt.Errorf("policy %q is not one of spread, pack", text)
	}
}
