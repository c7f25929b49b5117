// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// ErrShort says that a call has fewer inputs than it needs.
var ErrShort = errors.New("inputs are missing")

// Inputs reads the inputs of a call in their order. After the first that is missing all are zero and Err says so.
type Inputs struct {
	rest []byte
	err  error
}

// ReadCall splits the body of a call.
func ReadCall(body []byte) (symbol string, in *Inputs, err error) {
	name, rest, found := bytes.Cut(body, []byte{0})
	if !found {
		return "", nil, ErrShort
	}
	return string(name), &Inputs{rest: rest}, nil
}

func (in *Inputs) take(n int) []byte {
	if in.err != nil || len(in.rest) < n {
		in.err = ErrShort
		return make([]byte, n)
	}
	taken := in.rest[:n]
	in.rest = in.rest[n:]
	return taken
}

// Uint32 reads an unsigned int.
func (in *Inputs) Uint32() uint32 { return binary.LittleEndian.Uint32(in.take(4)) }

// Uint64 reads a handle or an unsigned long long.
func (in *Inputs) Uint64() uint64 { return binary.LittleEndian.Uint64(in.take(8)) }

// Text reads a string with its closing zero.
func (in *Inputs) Text() string {
	text, rest, found := bytes.Cut(in.rest, []byte{0})
	if in.err != nil || !found {
		in.err = ErrShort
		return ""
	}
	in.rest = rest
	return string(text)
}

// Err is ErrShort when something was missing.
func (in *Inputs) Err() error { return in.err }

// Outputs collects the outputs of an answer in the order of the arguments.
type Outputs struct{ body []byte }

// Put adds the bytes of one output.
func (out *Outputs) Put(b []byte) {
	out.body = binary.LittleEndian.AppendUint32(out.body, uint32(len(b)))
	out.body = append(out.body, b...)
}

// Body is the body of the answer.
func (out *Outputs) Body() []byte { return out.body }

// splitOutputs is the inverse of Put.
func splitOutputs(body []byte) ([][]byte, error) {
	var all [][]byte
	for len(body) > 0 {
		if len(body) < 4 {
			return nil, ErrShort
		}
		size := binary.LittleEndian.Uint32(body)
		body = body[4:]
		if uint64(size) > uint64(len(body)) {
			return nil, ErrShort
		}
		all = append(all, body[:size])
		body = body[size:]
	}
	return all, nil
}
