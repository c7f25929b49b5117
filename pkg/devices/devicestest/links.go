// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devicestest

import (
	"errors"
	"fmt"
	"slices"

	"gpuslice/pkg/devices"
)

var levels = []int{
	devices.LevelInternal, devices.LevelSingle, devices.LevelMultiple, devices.LevelHostBridge, devices.LevelNode, devices.LevelSystem,
}

func oneWay(b *bench) error {
	targets, err := b.all(Client{Name: "first"})
	if err != nil {
		return err
	}
	if len(targets) < 2 {
		return skip("fewer than two GPUs")
	}
	var errs []error
	for i, x := range targets {
		for _, y := range targets[:i] {
			there, err := x.CommonAncestor(x.gpu, y.gpu)
			back, backErr := x.CommonAncestor(y.gpu, x.gpu)
			errs = append(errs, err, backErr, differ("level from the other end", back, there))
			if !slices.Contains(levels, there) {
				errs = append(errs, fmt.Errorf("level %d is none of %v", there, levels))
			}
		}
	}
	return errors.Join(errs...)
}

// twoEnds counts the links between two GPUs from either end; links into switches are counted where they begin.
func twoEnds(b *bench) error {
	targets, err := b.all(Client{Name: "first"})
	if err != nil {
		return err
	}
	var errs []error
	links := map[[2]string]int{}
	seen := 0
	for _, t := range targets {
		ends, switched, err := t.linkEnds()
		errs = append(errs, err)
		seen += len(ends) + switched
		for _, end := range ends {
			links[[2]string{t.busID, end}]++
		}
	}
	for ends, n := range links {
		isHere := slices.ContainsFunc(targets, func(t target) bool { return t.busID == ends[1] })
		if back := links[[2]string{ends[1], ends[0]}]; isHere && back != n {
			errs = append(errs, fmt.Errorf("%d links lead from %s to %s, %d back", n, ends[0], ends[1], back))
		}
	}
	if seen == 0 && errors.Join(errs...) == nil {
		return skip("no GPU with NVLinks")
	}
	return errors.Join(errs...)
}

// linkEnds lists where a GPU's active links end at GPUs, and counts those that end at switches.
func (t target) linkEnds() (gpus []string, switched int, err error) {
	for link := range devices.NVLinks {
		active, err := t.NVLinkActive(t.gpu, link)
		if errors.Is(err, devices.ErrNotSupported) || errors.Is(err, devices.ErrInvalidArgument) {
			continue
		}
		if err != nil {
			return nil, 0, fmt.Errorf("NVLinkActive %d: %w", link, err)
		}
		if !active {
			continue
		}
		end, err := t.NVLinkEnd(t.gpu, link)
		if err != nil {
			return nil, 0, fmt.Errorf("NVLinkEnd %d: %w", link, err)
		}
		busID, err := t.NVLinkBusID(t.gpu, link)
		if err != nil {
			return nil, 0, fmt.Errorf("NVLinkBusID %d: %w", link, err)
		}
		switch end {
		case devices.EndGPU:
			gpus = append(gpus, busID)
		case devices.EndSwitch:
			switched++
		case devices.EndNPU, devices.EndUnknown:
		}
	}
	_, past := t.NVLinkActive(t.gpu, devices.NVLinks)
	return gpus, switched, want("NVLinkActive past the last", past, devices.ErrInvalidArgument, devices.ErrNotSupported)
}
