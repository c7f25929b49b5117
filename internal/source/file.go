// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package source

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"k8s.io/klog/v2"
)

// Sink takes what sources bring.
type Sink interface {
	SetConfig(name string, text []byte) error
	ConfigUnavailable(err error)
	SetLabels(labels map[string]string) error
}

// lookEvery is how often a file is read; ConfigMap volumes change by swapping a link, which file watches miss.
const lookEvery = time.Second

// File brings the content of a file until ctx ends.
func File(ctx context.Context, path string, jitter time.Duration, sink Sink) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	feed := feed{sink: sink, jitter: jitter}
	for {
		text, err := os.ReadFile(path)
		if err != nil {
			feed.unavailable(fmt.Errorf("config file: %w", err))
		} else {
			feed.text(ctx, path, text)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// feed passes a text on when it differs from the last one, the first at once and edits after a random delay, so that the
// nodes of a cluster do not all change at the same moment.
type feed struct {
	sink    Sink
	jitter  time.Duration
	last    []byte
	any     bool
	missing string
}

func (f *feed) text(ctx context.Context, name string, text []byte) {
	if f.any && f.missing == "" && bytes.Equal(f.last, text) {
		return
	}
	if f.any && f.jitter > 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rand.N(f.jitter)):
		}
	}
	f.last, f.any, f.missing = text, true, ""
	if err := f.sink.SetConfig(name, text); err != nil {
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
