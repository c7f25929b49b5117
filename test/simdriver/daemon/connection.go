// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"fmt"
	"net"
	"os"

	"gpuslice/pkg/devices"
	"gpuslice/test/simdriver/wire"
)

// serveLibrary answers the calls of one connection. Frames are read while a call is still running, because a process that
// dies in a call that hangs is seen by its closed connection only.
func (d *Daemon) serveLibrary(c *net.UnixConn) {
	who, err := peerOf(c)
	if err != nil {
		fmt.Fprintln(os.Stderr, "simdriver: connection refused:", err)
		return
	}
	cl := d.join(who)
	frames := make(chan wire.Frame)
	done := make(chan struct{})
	d.work.Go(func() error {
		defer d.leave(cl)
		defer close(frames)
		read(c, frames, done)
		return nil
	})
	defer d.settle(cl)
	defer c.Close()
	defer close(done)
	for f := range frames {
		if err := wire.WriteFrame(c, cl.answer(f, c, frames)); err != nil {
			return // the process is gone
		}
	}
}

// read passes frames on until the connection is closed or nobody wants them.
func read(c net.Conn, frames chan<- wire.Frame, done <-chan struct{}) {
	for {
		f, err := wire.ReadFrame(c)
		if err != nil {
			return
		}
		select {
		case frames <- f:
		case <-done:
			return
		}
	}
}

// answer runs the call of a frame; probes go out and come back on the same connection.
func (cl *client) answer(f wire.Frame, c net.Conn, frames <-chan wire.Frame) wire.Frame {
	symbol, in, err := wire.ReadCall(f.Body)
	if err != nil || f.Tag != wire.TagCall {
		return wire.Frame{Tag: uint32(devices.ErrInvalidArgument)}
	}
	r := &request{client: cl, in: in}
	r.exchange = func(body []byte) ([]byte, error) {
		if err := wire.WriteFrame(c, wire.Frame{Tag: wire.TagProbe, Body: body}); err != nil {
			return nil, err
		}
		reply, open := <-frames
		if !open || reply.Tag != wire.TagProbe {
			return nil, fmt.Errorf("probe of process %d: no answer", cl.pid)
		}
		return reply.Body, nil
	}
	r.hold = func(node string) error { return wire.WriteFrame(c, wire.Frame{Tag: wire.TagHold, Body: []byte(node)}) }
	return r.serve(symbol)
}

// join counts a connection of a process.
func (d *Daemon) join(who peer) *client {
	d.mu.Lock()
	defer d.mu.Unlock()
	cl := d.clients[who.pid]
	if cl == nil {
		cl = &client{peer: who, daemon: d, nodes: map[string]bool{}, held: map[string]bool{}}
		d.clients[who.pid] = cl
	}
	cl.connections++
	return cl
}

// leave ends the session of a process with its last connection; calls that hang come back.
func (d *Daemon) leave(cl *client) {
	d.mu.Lock()
	cl.connections--
	last := cl.connections == 0
	if last {
		delete(d.clients, cl.pid)
	}
	d.mu.Unlock()
	if last {
		d.node.Machine.CloseClient(cl.name())
	}
}

// settle ends what a call began while its process went away.
func (d *Daemon) settle(cl *client) {
	d.mu.Lock()
	gone := cl.connections == 0 && d.clients[cl.pid] == nil
	d.mu.Unlock()
	if gone {
		d.node.Machine.CloseClient(cl.name())
	}
}
