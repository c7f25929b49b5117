// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"syscall"

	"gpuslice/pkg/devices"
	"gpuslice/test/simdriver/abi"
	"gpuslice/test/simdriver/wire"
)

// request is one call on its way: who makes it, what goes in, what comes out.
type request struct {
	*client
	in  *wire.Inputs
	out wire.Outputs
	// exchange sends a probe and returns what the library answered.
	exchange func(body []byte) ([]byte, error)
	// hold makes the library keep a device node open; "" makes it let go of all.
	hold func(node string) error
}

// handler answers one function of the library.
type handler func(*request) error

// handlers are all functions, by symbol.
var handlers = join(systemCalls, findCalls, identityCalls, migCalls, giCalls, ciCalls, processCalls, eventCalls, managementCalls, linkCalls, memoryCalls, fieldCalls)

func join(parts ...map[string]handler) map[string]handler {
	all := map[string]handler{}
	for _, part := range parts {
		maps.Copy(all, part)
	}
	return all
}

// serve runs the call of a frame.
func (r *request) serve(symbol string) wire.Frame {
	r.daemon.count(r.pid, symbol)
	answer, known := handlers[symbol]
	if !known {
		return wire.Frame{Tag: uint32(devices.ErrFunctionNotFound)}
	}
	err := answer(r)
	if short := r.in.Err(); short != nil {
		return wire.Frame{Tag: uint32(devices.ErrInvalidArgument)}
	}
	return wire.Frame{Tag: codeOf(err), Body: r.out.Body()}
}

func codeOf(err error) uint32 {
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[devices.Code](err); ok {
		return uint32(code)
	}
	return uint32(devices.ErrUnknown)
}

func (r *request) put(v any)          { r.out.Put(abi.Bytes(v)) }
func (r *request) putUint32(v int)    { r.out.Put(abi.Bytes(uint32(v))) }
func (r *request) putUint64(v uint64) { r.out.Put(abi.Bytes(v)) }

// putText answers a string if it fits into the caller's buffer.
func (r *request) putText(text string, length uint32) error {
	if uint64(len(text))+1 > uint64(length) {
		return devices.ErrInsufficientSize
	}
	r.out.Put(append([]byte(text), 0))
	return nil
}

// openNodes asks the caller's process to open device nodes and says which it may use. A node that was opened once stays open:
// the rules of the container may change, open files do not.
func (r *request) openNodes(names ...string) (map[string]syscall.Errno, error) {
	answers := map[string]syscall.Errno{}
	var body []byte
	var asked []string
	r.mu.Lock()
	for _, name := range names {
		if r.nodes[name] {
			answers[name] = 0
			continue
		}
		asked = append(asked, name)
		body = append(append(body, name...), 0)
	}
	r.mu.Unlock()
	if len(asked) == 0 {
		return answers, nil
	}
	reply, err := r.exchange(body)
	if err == nil && len(reply) != 4*len(asked) {
		err = fmt.Errorf("probe of %d nodes: %d bytes came back", len(asked), len(reply))
	}
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, name := range asked {
		answers[name] = syscall.Errno(binary.LittleEndian.Uint32(reply[4*i:]))
		if usable(answers[name]) {
			r.nodes[name] = true
		}
	}
	return answers, nil
}

// usable says whether a node is the caller's to use. Without the kernel module nobody serves the node, which ENXIO says; the
// runtime's device rules have let it pass by then.
func usable(errno syscall.Errno) bool { return errno == 0 || errno == syscall.ENXIO }
