// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package wire

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFramesComeBack(t *testing.T) {
	var b bytes.Buffer
	want := []Frame{{Tag: TagCall, Body: []byte("a\x00b")}, {Tag: 23, Body: []byte{}}, {Tag: TagProbe, Body: make([]byte, 5000)}}
	for _, f := range want {
		if err := WriteFrame(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range want {
		got, err := ReadFrame(&b)
		if diff := cmp.Diff(f, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

func TestHugeFramesAreRefused(t *testing.T) {
	if _, err := ReadFrame(bytes.NewReader([]byte{0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0x7F})); err == nil {
		t.Error("a frame of 2 GiB is read")
	}
}

func TestCallsAreReadAsTheyWereWritten(t *testing.T) {
	body, err := encode("nvmlX", []any{uint32(7), "text", uint64(1) << 40})
	if err != nil {
		t.Fatal(err)
	}
	symbol, in, err := ReadCall(body)
	if symbol != "nvmlX" || err != nil || in.Uint32() != 7 || in.Text() != "text" || in.Uint64() != 1<<40 || in.Err() != nil {
		t.Errorf("call %q came back as %q: %v, %v", body, symbol, err, in.Err())
	}
	if in.Uint32() != 0 || !errors.Is(in.Err(), ErrShort) {
		t.Errorf("reading past the end: %v", in.Err())
	}
}

func TestOutputsComeBack(t *testing.T) {
	var out Outputs
	out.Put([]byte("first"))
	out.Put(nil)
	out.Put([]byte{1, 2, 3})
	got, err := splitOutputs(out.Body())
	if diff := cmp.Diff([][]byte{[]byte("first"), {}, {1, 2, 3}}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// Whatever comes in, neither side breaks.
func FuzzBodies(f *testing.F) {
	f.Add([]byte("nvmlInit_v2\x00"))
	f.Add([]byte{5, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, in, err := ReadCall(body); err == nil {
			in.Text()
			in.Uint64()
			in.Uint32()
		}
		if all, err := splitOutputs(body); err == nil {
			size := 0
			for _, o := range all {
				size += 4 + len(o)
			}
			if size != len(body) {
				t.Errorf("%d bytes of %d", size, len(body))
			}
		}
	})
}
