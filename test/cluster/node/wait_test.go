// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestUntil(t *testing.T) {
	errMissing := errors.New("no socket yet")
	tests := []struct {
		name, why string
		probe     func(elapsed time.Duration) error
		want      string
		took      time.Duration
	}{
		{
			"at once", "what is there needs no tick",
			func(time.Duration) error { return nil }, "", 0,
		},
		{
			"later", "the condition is looked at every tick",
			func(d time.Duration) error {
				if d < 120*time.Millisecond {
					return errMissing
				}
				return nil
			}, "", 150 * time.Millisecond,
		},
		{
			"never", "the error names the wait, its limit and what was missing",
			func(time.Duration) error { return errMissing }, "wait for the socket: not within 2s: no socket yet", 2 * time.Second,
		},
		{
			"hopeless", "a failed pod never runs",
			func(time.Duration) error { return Hopeless(errMissing) }, "wait for the socket: no socket yet", 0,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := Until(t.Context(), 2*time.Second, "the socket", func(context.Context) error { return tt.probe(time.Since(start)) })
				got := ""
				if err != nil {
					got = err.Error()
					if !errors.Is(err, errMissing) {
						t.Errorf("the probe's error is lost in %v", err)
					}
				}
				if got != tt.want || time.Since(start) != tt.took {
					t.Errorf("Until = %q after %v; want %q after %v: %s", got, time.Since(start), tt.want, tt.took, tt.why)
				}
			})
		})
	}
}

// A cause of the caller, such as a program that died, is what the wait reports.
func TestUntilReportsCause(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("etcd ended"))
	err := Until(ctx, time.Hour, "readiness", func(context.Context) error { return errors.New("refused") })
	if err == nil || !strings.Contains(err.Error(), "etcd ended") {
		t.Errorf("err = %v", err)
	}
}
