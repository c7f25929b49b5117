// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"gpuslice/pkg/devices"
	"gpuslice/test/simdriver/wire"
)

// job is what a command line asks for.
type job func(client, io.Writer) error

// intervals are the names of the driver's time slices, by number.
var intervals = []string{"default", "short", "medium", "long"}

// options is a command line by option; an option without a value has "".
type options map[string]string

// takesValue lists the options with a value.
var takesValue = []string{"-i", "--id", "-pm", "--persistence-mode", "--set-timeslice"}

func scan(args []string) (options, error) {
	all := options{}
	for len(args) > 0 {
		name, value, joined := strings.Cut(args[0], "=")
		args = args[1:]
		if slices.Contains(takesValue, name) && !joined {
			if len(args) == 0 {
				return nil, errUsage
			}
			value, args = args[0], args[1:]
		}
		all[name] = value
	}
	return all, nil
}

// take removes an option by one of its names.
func (o options) take(names ...string) (value string, given bool) {
	for _, name := range names {
		if v, ok := o[name]; ok {
			delete(o, name)
			value, given = v, true
		}
	}
	return value, given
}

func parse(args []string) (job, error) {
	o, err := scan(args)
	if err != nil {
		return nil, err
	}
	ids, _ := o.take("-i", "--id")
	var found job
	if _, given := o.take("-L", "--list-gpus"); given {
		found = list
	} else if _, given := o.take("-r", "--gpu-reset"); given {
		found = each(ids, reset)
	} else if mode, given := o.take("-pm", "--persistence-mode"); given {
		found, err = persistence(ids, mode)
	} else if _, given := o.take("compute-policy"); given {
		found, err = policy(ids, o)
	}
	if err != nil {
		return nil, err
	}
	if found == nil || len(o) > 0 {
		return nil, errUsage
	}
	return found, nil
}

func persistence(ids, mode string) (job, error) {
	on, err := number(mode, 2)
	return each(ids, func(c client, id string, out io.Writer) error {
		answer, err := c.Call(wire.CallSetPersistence, id, on)
		if err != nil {
			return fmt.Errorf("unable to set persistence mode for GPU %s: %w", id, err)
		}
		fmt.Fprintf(out, "Persistence mode set to %d for GPU %s.\nAll done.\n", on, answer[0])
		return nil
	}), err
}

func policy(ids string, o options) (job, error) {
	if _, given := o.take("-l", "--list"); given {
		return each(ids, showPolicy), nil
	}
	text, _ := o.take("--set-timeslice")
	interval := uint32(slices.Index(intervals, text))
	if !slices.Contains(intervals, text) {
		var err error
		if interval, err = number(text, len(intervals)); err != nil {
			return nil, err
		}
	}
	return each(ids, func(c client, id string, out io.Writer) error {
		answer, err := c.Call(wire.CallSetTimeSlice, id, interval)
		if err != nil {
			return fmt.Errorf("unable to set the time slice of GPU %s: %w", id, err)
		}
		fmt.Fprintf(out, "Successfully set timeslice for GPU %s to %s.\n", answer[0], intervals[interval])
		return nil
	}), nil
}

func showPolicy(c client, id string, out io.Writer) error {
	answer, err := c.Call(wire.CallGetTimeSlice, id)
	if err != nil {
		return fmt.Errorf("unable to read the compute policy of GPU %s: %w", id, err)
	}
	interval := int(asUint32(answer))
	if interval >= len(intervals) {
		return devices.ErrUnknown
	}
	fmt.Fprintf(out, "GPU %s: timeslice %s\n", id, intervals[interval])
	return nil
}

func number(text string, limit int) (uint32, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n >= limit {
		return 0, errUsage
	}
	return uint32(n), nil
}

// each does a job on the GPUs of a list of ids, or on all.
func each(ids string, do func(client, string, io.Writer) error) job {
	return func(c client, out io.Writer) error {
		wanted := strings.FieldsFunc(ids, func(r rune) bool { return r == ',' })
		if len(wanted) == 0 {
			count, err := c.count()
			if err != nil {
				return err
			}
			for i := range count {
				wanted = append(wanted, strconv.Itoa(i))
			}
		}
		var errs []error
		for _, id := range wanted {
			errs = append(errs, do(c, id, out))
		}
		return errors.Join(errs...)
	}
}

func reset(c client, id string, out io.Writer) error {
	answer, err := c.Call(wire.CallReset, id)
	if errors.Is(err, devices.ErrInUse) {
		return fmt.Errorf("GPU %s is currently in use by another process: %w", id, err)
	}
	if err != nil {
		return fmt.Errorf("GPU %s could not be reset: %w", id, err)
	}
	fmt.Fprintf(out, "GPU %s was successfully reset.\nAll done.\n", answer[0])
	return nil
}
