// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/klog/v2"

	"gpuslice/internal/beat"
	"gpuslice/internal/config"
	"gpuslice/pkg/regular"
)

// Sink takes what sources bring.
type Sink interface {
	SetConfig(name string, text []byte) error
	ConfigUnavailable(err error)
	SetLabels(labels map[string]string) error
	SetAnnotations(annotations map[string]string) error
	SetRuntime(version string)
}

// lookEvery is how often a file is read; ConfigMap volumes change by swapping a link, which file watches miss.
const lookEvery = time.Second

// maxConfig is above what a ConfigMap can hold (1 MiB, the limit of an object in etcd).
const maxConfig = 4 << 20

// File brings the content of a file until ctx ends. An edit is taken when two looks in a row see the same, because an editor
// may be writing it at this moment.
func File(ctx context.Context, path string, jitter time.Duration, sink Sink) error {
	feed := feed{sink: sink, jitter: jitter}
	var previous []byte
	for {
		text, err := regular.ReadFile(path, maxConfig)
		switch {
		case err != nil:
			feed.unavailable(fmt.Errorf("config file: %w", err))
		case !feed.any || bytes.Equal(text, previous):
			feed.text(ctx, path, text)
		}
		previous = text
		select {
		case <-ctx.Done():
			return nil
		case <-beat.After(lookEvery):
		}
	}
}

// feed passes a text on when it differs from the last one, the first at once and edits after a random delay, so that the
// nodes of a cluster do not all change at the same moment.
type feed struct {
	sink    Sink
	jitter  time.Duration
	last    []byte
	any     bool // there was a text
	taken   bool // last was accepted, or refused for what it says
	missing string
}

func (f *feed) text(ctx context.Context, name string, text []byte) {
	if f.taken && f.missing == "" && bytes.Equal(f.last, text) {
		return
	}
	if f.any && f.jitter > 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rand.N(f.jitter)):
		}
	}
	err := f.sink.SetConfig(name, text)
	var mistakes config.Issues
	if f.any, f.missing = true, ""; err == nil || errors.As(err, &mistakes) {
		f.last, f.taken = text, true // what is wrong in itself is not tried again
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Config not accepted", "source", name)
		return
	}
	klog.FromContext(ctx).Info("Config accepted", "source", name)
}

func (f *feed) unavailable(err error) {
	if f.missing != err.Error() {
		f.missing = err.Error()
		f.sink.ConfigUnavailable(err)
	}
}
