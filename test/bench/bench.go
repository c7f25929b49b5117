// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"gpuslice/test/simdriver/library"
)

// bench is what is to be measured.
type bench struct {
	template  []string
	configs   map[string][]byte // by name
	repeat    int
	calls     int
	idle      time.Duration
	latencies []time.Duration
	at        place
	short     string // a folder for sockets, whose paths must not be long
	artifacts library.Artifacts
}

// measure returns what it has even when it fails.
func (b *bench) measure(ctx context.Context) ([]condition, error) {
	still := condition{"-", figures{}}
	measured := []condition{still}
	size, err := sizeOf(b.template[0])
	if err != nil {
		return measured, err
	}
	still.add(binarySize, size)
	for range b.repeat {
		if err := calibrate(ctx, b.at.dir, still.figures); err != nil {
			return measured, err
		}
	}
	for _, latency := range b.latencies {
		c := condition{latency.String(), figures{}}
		measured = append(measured, c)
		if err := b.measureAt(ctx, latency, c.figures); err != nil {
			return measured, fmt.Errorf("driver latency %v: %w", latency, err)
		}
	}
	return measured, nil
}

func (b *bench) measureAt(ctx context.Context, latency time.Duration, f figures) error {
	if err := b.measureLives(ctx, latency, f); err != nil {
		return err
	}
	if err := b.measureSixteen(ctx, latency, f); err != nil {
		return err
	}
	for _, e := range edits {
		if err := b.measureEdit(ctx, e, latency, f); err != nil {
			return err
		}
	}
	return nil
}

// on does something on a node of its own.
func (b *bench) on(machine string, latency time.Duration, do func(*node) error) (err error) {
	dir, err := os.MkdirTemp(b.at.dir, "node")
	if err != nil {
		return err
	}
	n, err := newNode(dir, machine, latency, b.artifacts)
	if err != nil {
		return err
	}
	n.short = b.short
	defer func() { err = errors.Join(err, n.driver.Close()) }() // its folder goes with that of the run
	return do(n)
}

// sizeOf a program, in MB of a million bytes.
func sizeOf(program string) (float64, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return float64(info.Size()) / 1e6, nil
}
