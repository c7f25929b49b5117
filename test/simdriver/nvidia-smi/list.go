// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"gpuslice/pkg/devices"
	"gpuslice/test/simdriver/wire"
)

// client makes library calls without the library.
type client struct{ *wire.Client }

// textSize is room for every string of the library.
const textSize = uint32(128)

func (c client) count() (int, error) {
	answer, err := c.Call("nvmlDeviceGetCount_v2")
	return int(asUint32(answer)), err
}

func (c client) text(symbol string, device uint64) (string, error) {
	answer, err := c.Call(symbol, device, textSize)
	if err != nil || len(answer) == 0 {
		return "", err
	}
	return strings.TrimRight(string(answer[0]), "\x00"), nil
}

func (c client) device(symbol string, inputs ...any) (uint64, error) {
	answer, err := c.Call(symbol, inputs...)
	if err != nil || len(answer) == 0 || len(answer[0]) != 8 {
		return 0, err
	}
	return binary.LittleEndian.Uint64(answer[0]), nil
}

func asUint32(answer [][]byte) uint32 {
	if len(answer) == 0 || len(answer[0]) != 4 {
		return 0
	}
	return binary.LittleEndian.Uint32(answer[0])
}

func list(c client, out io.Writer) error {
	count, err := c.count()
	if err != nil {
		return err
	}
	for i := range count {
		gpu, err := c.device("nvmlDeviceGetHandleByIndex_v2", uint32(i))
		if errors.Is(err, devices.ErrLost) {
			fmt.Fprintf(out, "Unable to determine the device handle for gpu %d: GPU is lost\n", i)
			continue
		}
		name, nameErr := c.text("nvmlDeviceGetName", gpu)
		uuid, uuidErr := c.text("nvmlDeviceGetUUID", gpu)
		if err := errors.Join(err, nameErr, uuidErr); err != nil {
			return err
		}
		fmt.Fprintf(out, "GPU %d: %s (UUID: %s)\n", i, name, uuid)
		if err := c.listMIG(gpu, out); err != nil {
			return err
		}
	}
	return nil
}

func (c client) listMIG(gpu uint64, out io.Writer) error {
	answer, err := c.Call("nvmlDeviceGetMaxMigDeviceCount", gpu)
	if err != nil {
		return err
	}
	for i := range asUint32(answer) {
		mig, err := c.device("nvmlDeviceGetMigDeviceHandleByIndex", gpu, i)
		if errors.Is(err, devices.ErrNotFound) {
			continue
		}
		name, nameErr := c.text("nvmlDeviceGetName", mig)
		uuid, uuidErr := c.text("nvmlDeviceGetUUID", mig)
		if err := errors.Join(err, nameErr, uuidErr); err != nil {
			return err
		}
		_, profile, _ := strings.Cut(name, " MIG ")
		fmt.Fprintf(out, "  MIG %-11s Device %2d: (UUID: %s)\n", profile, i, uuid)
	}
	return nil
}
