// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devicestest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"gpuslice/pkg/devices"
)

var readOnlyLines = []line{
	{"calls before Init are refused", beforeInit},
	{"indexes are dense", indexesAreDense},
	{"names lead back to the GPU", namesLeadBack},
	{"unknown names are not found", unknownNames},
	{"the driver has a version", hasVersion},
	{"a GPU that cannot be cut says so", cannotBeCut},
	{"profiles agree with their placements", profilesAgree},
	{"no MIG devices while the mode is off", noneWhileOff},
	{"MIG devices are the compute instances", migDevicesAreInstances},
	{"Shutdown ends handles", shutdownEndsHandles},
	{"waiting without events times out", waitTimesOut},
	{"the way between two GPUs is one way", oneWay},
	{"NVLinks have two ends", twoEnds},
	{"what is no cgroup has no memory limits", noCgroupNoLimits},
	{"fields are answered one by one", fieldsOneByOne},
}

func beforeInit(b *bench) error {
	d := b.Open(Client{Name: "first"})
	_, err := d.GPUCount()
	_, byIndex := d.GPUByIndex(0)
	return errors.Join(want("GPUCount", err, devices.ErrUninitialized), want("GPUByIndex", byIndex, devices.ErrUninitialized))
}

func indexesAreDense(b *bench) error {
	targets, err := b.all(Client{Name: "first"})
	if err != nil {
		return err
	}
	var errs []error
	for i, t := range targets {
		index, err := t.Index(t.gpu)
		errs = append(errs, err, differ("Index", index, i))
	}
	if len(targets) > 0 {
		_, err := targets[0].GPUByIndex(len(targets))
		errs = append(errs, want("GPUByIndex past the last", err, devices.ErrInvalidArgument))
	}
	return errors.Join(errs...)
}

func namesLeadBack(b *bench) error {
	targets, err := b.all(Client{Name: "first"})
	if err != nil {
		return err
	}
	var errs []error
	minors := map[int]bool{}
	for i, t := range targets {
		uuid, err := t.UUID(t.gpu)
		minor, minorErr := t.Minor(t.gpu)
		errs = append(errs, err, minorErr)
		if minors[minor] {
			errs = append(errs, fmt.Errorf("minor %d is given twice", minor))
		}
		minors[minor] = true
		if !strings.HasPrefix(uuid, "GPU-") || strings.ToUpper(t.busID) != t.busID || len(t.busID) != len("00000000:65:00.0") {
			errs = append(errs, fmt.Errorf("uuid %q, bus id %q are not as the driver writes them", uuid, t.busID))
		}
		byUUID, err := t.GPUByUUID(uuid)
		byBusID, busErr := t.GPUByBusID(t.busID)
		errs = append(errs, err, busErr)
		for _, h := range []devices.GPUHandle{byUUID, byBusID} {
			index, err := t.Index(h)
			errs = append(errs, err, differ("Index of the GPU found by name", index, i))
		}
	}
	return errors.Join(errs...)
}

func unknownNames(b *bench) error {
	d, err := b.open(Client{Name: "first"})
	if err != nil {
		return err
	}
	_, byUUID := d.GPUByUUID("GPU-00000000-0000-0000-0000-000000000000")
	_, byBusID := d.GPUByBusID("0000FFFF:FF:1F.7")
	return errors.Join(want("GPUByUUID", byUUID, devices.ErrNotFound), want("GPUByBusID", byBusID, devices.ErrNotFound))
}

func hasVersion(b *bench) error {
	d, err := b.open(Client{Name: "first"})
	if err != nil {
		return err
	}
	version, err := d.DriverVersion()
	cuda, cudaErr := d.CUDADriverVersion()
	if version == "" || cuda < 11000 {
		return fmt.Errorf("driver %q, CUDA %d", version, cuda)
	}
	return errors.Join(err, cudaErr)
}

func cannotBeCut(b *bench) error {
	targets, err := b.all(Client{Name: "first"})
	if err != nil {
		return err
	}
	for _, t := range targets {
		if _, _, err := t.MIGMode(t.gpu); !errors.Is(err, devices.ErrNotSupported) {
			continue
		}
		_, profile := t.GIProfile(t.gpu, 0)
		_, list := t.GIs(t.gpu, 0)
		count, err := t.MaxMIGDevices(t.gpu)
		return errors.Join(want("GIProfile", profile, devices.ErrNotSupported), want("GIs", list, devices.ErrNotSupported),
			err, differ("MaxMIGDevices", count, 0))
	}
	return skip("every GPU can be cut")
}

func profilesAgree(b *bench) error {
	targets, err := b.all(Client{Name: "first"})
	if err != nil {
		return err
	}
	var errs []error
	seen := 0
	for _, t := range targets {
		all, err := t.profiles()
		errs = append(errs, err)
		ids := map[int]bool{}
		for _, p := range all {
			seen++
			if ids[p.ID] {
				errs = append(errs, fmt.Errorf("profile id %d is given twice", p.ID))
			}
			ids[p.ID] = true
			errs = append(errs, p.agrees())
		}
	}
	if seen == 0 {
		return skip("no GPU can be cut")
	}
	return errors.Join(errs...)
}

func (p profile) agrees() error {
	if len(p.placements) == 0 || p.MaxInstances < 1 || p.MaxInstances > len(p.placements) || p.Slices < 1 || p.MemoryMiB == 0 {
		return fmt.Errorf("profile %+v makes no sense", p)
	}
	for _, at := range p.placements {
		if at.Size != p.placements[0].Size || at.Size < 1 || at.Start < 0 {
			return fmt.Errorf("profile %d has placement %+v", p.ID, at)
		}
	}
	return nil
}

func noneWhileOff(b *bench) error {
	targets, err := b.all(Client{Name: "first"})
	if err != nil {
		return err
	}
	for _, t := range targets {
		if on, _, err := t.MIGMode(t.gpu); err != nil || on {
			continue
		}
		count, err := t.MaxMIGDevices(t.gpu)
		_, device := t.MIGDevice(t.gpu, 0)
		return errors.Join(err, differ("MaxMIGDevices", count, 0),
			want("MIGDevice 0", device, devices.ErrNotFound, devices.ErrNotSupported, devices.ErrInvalidArgument))
	}
	return skip("no GPU with mode off")
}

func shutdownEndsHandles(b *bench) error {
	targets, err := b.all(Client{Name: "first"})
	if err != nil {
		return err
	}
	if len(targets) == 0 {
		return skip("no GPU")
	}
	t := targets[0]
	if err := t.Shutdown(); err != nil {
		return fmt.Errorf("Shutdown: %w", err)
	}
	_, closed := t.UUID(t.gpu)
	if err := t.Init(); err != nil {
		return fmt.Errorf("second Init: %w", err)
	}
	_, stale := t.UUID(t.gpu)
	return errors.Join(want("UUID after Shutdown", closed, devices.ErrUninitialized),
		want("UUID with a handle of the session before", stale, devices.ErrNotFound, devices.ErrInvalidArgument))
}

// noCgroupNoLimits takes a driver without limits, too: what it may not do is to answer.
func noCgroupNoLimits(b *bench) error {
	targets, err := b.all(Client{Name: "first"})
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range targets {
		_, none := t.MemoryLimits(t.gpu, "/there/is/no/such/cgroup")
		errs = append(errs, want("MemoryLimits", none, devices.ErrOperatingSystem, devices.ErrNotSupported, devices.ErrFunctionNotFound))
		total, totalErr := t.Memory(t.gpu)
		reserved, err := t.ReservedMemory(t.gpu)
		if err == nil && totalErr == nil && reserved >= total {
			errs = append(errs, fmt.Errorf("%d bytes of %d are reserved", reserved, total))
		}
	}
	return errors.Join(errs...)
}

// fieldsOneByOne asks for two that every driver of today has, around one that none has.
func fieldsOneByOne(b *bench) error {
	const none = 1 << 20
	targets, err := b.all(Client{Name: "first"})
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range targets {
		fields, err := t.Fields(t.gpu, []int{devices.FieldUncorrected, none, devices.FieldRecoveryAction})
		if err != nil || len(fields) != 3 {
			errs = append(errs, fmt.Errorf("%d fields: %w", len(fields), err))
			continue
		}
		errs = append(errs, want("a field that is not there", fields[1].Code, devices.ErrNotSupported, devices.ErrInvalidArgument))
		if action := fields[2]; action.Code == 0 && action.Value > 64 {
			errs = append(errs, fmt.Errorf("recovery action %d", action.Value))
		}
	}
	return errors.Join(errs...)
}

func waitTimesOut(b *bench) error {
	d, err := b.open(Client{Name: "first"})
	if err != nil {
		return err
	}
	set, err := d.NewEventSet()
	if err != nil {
		return fmt.Errorf("NewEventSet: %w", err)
	}
	_, err = set.Wait(time.Millisecond)
	return errors.Join(want("Wait", err, devices.ErrTimeout), set.Close())
}
