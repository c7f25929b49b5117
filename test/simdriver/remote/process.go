// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"gpuslice/pkg/devices"
)

// Process is another process with a driver.
type Process struct {
	cmd *exec.Cmd
	in  io.WriteCloser

	mu      sync.Mutex // one call at a time
	encoder *json.Encoder
	decoder *json.Decoder
}

// Start runs a command that calls Serve on its standard streams.
func Start(cmd *exec.Cmd) (*Process, error) {
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return nil, fmt.Errorf("start driver process: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start driver process: %w", err)
	}
	return &Process{cmd: cmd, in: in, encoder: json.NewEncoder(in), decoder: json.NewDecoder(out)}, nil
}

// Driver is the session of the process.
func (p *Process) Driver() devices.Driver { return driver{p} }

// PID is the process's number in the caller's PID namespace.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process in the middle of whatever it does.
func (p *Process) Kill() error {
	err := p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it was killed, which Wait reports
	return err
}

// Stop lets the process end by itself.
func (p *Process) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.in.Close(), p.cmd.Wait())
}

// invoke makes one call. A process that is gone answers ErrUnknown.
func (p *Process) invoke(set int, method string, results []any, args ...any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := call{Set: set, Method: method}
	for _, arg := range args {
		text, err := json.Marshal(arg)
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		c.Args = append(c.Args, text)
	}
	var r result
	if err := errors.Join(p.encoder.Encode(c), p.decoder.Decode(&r)); err != nil {
		return fmt.Errorf("%s: %w: %w", method, devices.ErrUnknown, err)
	}
	if r.Broken != "" || len(r.Values) != len(results)+1 {
		return fmt.Errorf("%s: %d results: %s", method, len(r.Values), r.Broken)
	}
	for i, target := range results {
		if err := json.Unmarshal(r.Values[i], target); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
	}
	return asError(r.Values[len(results)])
}

func asError(text json.RawMessage) error {
	var f *failure
	if err := json.Unmarshal(text, &f); err != nil {
		return fmt.Errorf("read error: %w", err)
	}
	switch {
	case f == nil:
		return nil
	case f.Code != 0:
		return f.Code
	}
	return errors.New(f.Text)
}

// ask is a call with one result.
func ask[T any](d driver, method string, args ...any) (out T, err error) {
	err = d.invoke(0, method, []any{&out}, args...)
	return out, err
}

// askTwo is a call with two results.
func askTwo[A, B any](d driver, method string, args ...any) (a A, b B, err error) {
	err = d.invoke(0, method, []any{&a, &b}, args...)
	return a, b, err
}

type eventSet struct {
	process *Process
	number  int
}

func (d driver) NewEventSet() (devices.EventSet, error) {
	number, err := ask[int](d, "NewEventSet")
	if err != nil {
		return nil, err
	}
	return eventSet{process: d.Process, number: number}, nil
}

func (e eventSet) Register(h devices.GPUHandle, types uint64) error {
	return e.process.invoke(e.number, "Register", nil, h, types)
}

func (e eventSet) Wait(timeout time.Duration) (event devices.Event, err error) {
	err = e.process.invoke(e.number, "Wait", []any{&event}, timeout)
	return event, err
}

func (e eventSet) Close() error { return e.process.invoke(e.number, "Close", nil) }
