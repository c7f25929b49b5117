// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package sim is the NVIDIA driver of a node in memory: devices.Driver with the driver's own rules, and controls for what
// happens to hardware.
//
// A Machine is the node. Open gives a client's session with it; any number of sessions see one machine and get in each
// other's way as they do on a real one. Machines are written as "8xh100-sxm5-80gb", "2xa100-sxm4-40gb,1xl40s" or
// "@machine.yaml".
//
//	m, err := sim.Parse("1xh100-sxm5-80gb")
//	driver := m.Open(sim.Admin("agent"))
//	m.Dump()  // gpu-0 h100-sxm5-80gb mig=on [1g.10gb@0 3g.40gb@4*]
//
// Legality comes from tables of the published profiles (mig-profiles.json) and from code of its own; nothing here is shared
// with the code that it judges. Where the driver's behaviour is not published, a choice was made, and stands in the comment
// of the file that makes it:
//
//   - mode.go: when a mode change is refused, waits or happens, and what outlives a reset, a reboot and a driver reload
//   - session.go: what a session holds, and what is refused to others meanwhile
//   - legality.go, giid.go: where instances fit and which ids they get
//   - event.go: what waiting on a lost GPU answers
//   - generate.go: memory sizes that were never published are derived from profile names, for simulation only
package sim

//go:generate go run generate.go
