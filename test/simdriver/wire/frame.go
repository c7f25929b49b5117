// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package wire is the language between the simulated library and its daemon.
//
// Both sides send frames: a tag, the size of the body, the body; numbers are little endian.
//
//	call    tag 0                    body: symbol, zero, inputs as the raw bytes that the caller's memory holds
//	answer  tag = nvmlReturn_t       body: for each output its size and its bytes, in the order of the arguments
//	probe   tag 0xFFFFFFFF, daemon   body: names of device nodes, each with its closing zero
//	        tag 0xFFFFFFFF, library  body: for each what open(2) said, 0 or an errno, 32 bits each
//
// A connection carries one call at a time. Before it answers, the daemon may send probes: the library opens the device nodes
// in its own process, where the container's device cgroup decides.
package wire

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Tags of frames that are no answers.
const (
	TagCall  uint32 = 0
	TagProbe uint32 = 0xFFFFFFFF
	// TagHold asks the process to keep the device node of that name open, as the real library does with every GPU that it works
	// with, so that /proc says who holds what; "" lets go of all. It has no answer.
	TagHold uint32 = 0xFFFFFFFE
)

// maxBody bounds what either side accepts.
const maxBody = 1 << 20

// Frame is one message.
type Frame struct {
	Tag  uint32
	Body []byte
}

// ReadFrame reads one message.
func ReadFrame(r io.Reader) (Frame, error) {
	var header [8]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return Frame{}, err
	}
	f := Frame{Tag: binary.LittleEndian.Uint32(header[:])}
	size := binary.LittleEndian.Uint32(header[4:])
	if size > maxBody {
		return Frame{}, fmt.Errorf("read frame: %d bytes, at most %d", size, maxBody)
	}
	f.Body = make([]byte, size)
	if _, err := io.ReadFull(r, f.Body); err != nil {
		return Frame{}, fmt.Errorf("read frame: %w", err)
	}
	return f, nil
}

// WriteFrame writes one message at once.
func WriteFrame(w io.Writer, f Frame) error {
	b := make([]byte, 8, 8+len(f.Body))
	binary.LittleEndian.PutUint32(b, f.Tag)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(f.Body)))
	if _, err := w.Write(append(b, f.Body...)); err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	return nil
}
