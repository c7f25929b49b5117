// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

// row is one thing that is measured.
type row struct {
	key, title, unit string
	budget           float64 // the median may be at most this; 0 if it is only printed
	peer             string  // NVIDIA's device plugin v0.20 on such a simulated node with 2 cores
	// atOnce says that the budget holds for a driver that answers at once: with one that does not, its calls alone take longer.
	atOnce bool
}

// Keys of rows.
const (
	calibrationFsync = "fsync"
	calibrationEcho  = "echo"
	calibrationGet   = "get"
	calibrationFile  = "calibration-file"
	firstList        = "first-list"
	firstListCalls   = "first-list-calls"
	options          = "options"
	allocate         = "allocate"
	preferEight      = "prefer-8"
	preferSixteen    = "prefer-16"
	editShares       = "edit-shares"
	editInstances    = "edit-instances"
	idleTicks        = "idle-ticks"
	anonymousIdle    = "anonymous-idle"
	anonymousAfter   = "anonymous-after"
	residentAfter    = "resident-after"
	anonymousBoth    = "anonymous-both"
	residentBoth     = "resident-both"
	binarySize       = "binary"
)

// rows is the table in its order.
var rows = []row{
	{key: calibrationFsync, title: "calibration: write 4 KiB and fsync, p50", unit: "ms"},
	{key: calibrationEcho, title: "calibration: echo on a unix socket, p50", unit: "ms"},
	{key: calibrationFile, title: "calibration: make a file, p50", unit: "ms"},
	{key: calibrationGet, title: "calibration: GET of a Node at the API server, p50", unit: "ms"},
	{key: firstList, title: "exec to first device list, 8 GPUs", unit: "ms", budget: 25, peer: "25", atOnce: true},
	{key: firstListCalls, title: "driver calls until then", unit: "calls"},
	{key: options, title: "calibration: GetDevicePluginOptions p50", unit: "ms"},
	{key: allocate, title: "Allocate p50, 1 of 8 GPUs", unit: "ms", budget: 0.12, peer: "0.12"},
	{key: preferEight, title: "GetPreferredAllocation p50, 4 of 8 GPUs", unit: "ms", budget: 0.15, peer: "2.6"},
	{key: preferSixteen, title: "GetPreferredAllocation p50, 3 of 16 GPUs", unit: "ms", budget: 1, peer: "34700"},
	{key: editShares, title: "config edit to new list, time slices", unit: "ms", budget: 5000, peer: "never"},
	{key: editInstances, title: "config edit to new list, MIG instances", unit: "ms", budget: 5000, peer: "never"},
	{key: idleTicks, title: "CPU time, idle for 10 s", unit: "ticks", budget: 1, peer: "0", atOnce: true}, // each call that waits costs a switch of threads
	{key: anonymousIdle, title: "anonymous memory, idle", unit: "MB", budget: 12, peer: "7.5"},
	{key: anonymousAfter, title: "anonymous memory, after the calls", unit: "MB", budget: 12},
	{key: residentAfter, title: "resident memory, after the calls", unit: "MB", peer: "26"},
	{key: anonymousBoth, title: "anonymous memory with both APIs, idle", unit: "MB", budget: 20},
	{key: residentBoth, title: "resident memory with both APIs, idle", unit: "MB"},
	{key: binarySize, title: "size of the binary", unit: "MB", budget: 75},
}

// figures are the values of rows by key, one value for each repetition.
type figures map[string][]float64

func (f figures) add(key string, value float64) { f[key] = append(f[key], value) }
