// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package remote puts a driver into a process of its own, for tests in which several processes use one node: a library is
// bound to a process for good once it is loaded, and a process is what the driver counts as a client.
//
// The process answers one call at a time over its standard input and output, in JSON.
package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"gpuslice/pkg/devices"
)

// call is a method of devices.Driver, or of one of its event sets.
type call struct {
	Set    int // 0 is the driver itself
	Method string
	Args   []json.RawMessage
}

// result is what a method returned; an event set is its number.
type result struct {
	Values []json.RawMessage
	Broken string // why the method was not called
}

// failure is an error that a method returned.
type failure struct {
	Code devices.Code
	Text string
}

// Serve answers calls on a driver until its input ends.
func Serve(d devices.Driver, in io.Reader, out io.Writer) error {
	s := server{targets: []reflect.Value{reflect.ValueOf(d)}}
	decoder, encoder := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var c call
		if err := decoder.Decode(&c); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read call: %w", err)
		}
		r, err := s.do(c)
		if err != nil {
			r.Broken = err.Error()
		}
		if err := encoder.Encode(r); err != nil {
			return fmt.Errorf("write result: %w", err)
		}
	}
}

// server knows the driver and the event sets it made.
type server struct{ targets []reflect.Value }

func (s *server) do(c call) (result, error) {
	if c.Set < 0 || c.Set >= len(s.targets) {
		return result{}, fmt.Errorf("no event set %d", c.Set)
	}
	method := s.targets[c.Set].MethodByName(c.Method)
	if !method.IsValid() || method.Type().NumIn() != len(c.Args) {
		return result{}, fmt.Errorf("no method %s of %d arguments", c.Method, len(c.Args))
	}
	args := make([]reflect.Value, len(c.Args))
	for i, text := range c.Args {
		arg := reflect.New(method.Type().In(i))
		if err := json.Unmarshal(text, arg.Interface()); err != nil {
			return result{}, fmt.Errorf("argument %d of %s: %w", i, c.Method, err)
		}
		args[i] = arg.Elem()
	}
	var r result
	for _, out := range method.Call(args) {
		text, err := json.Marshal(s.value(out))
		if err != nil {
			return result{}, fmt.Errorf("result of %s: %w", c.Method, err)
		}
		r.Values = append(r.Values, text)
	}
	return r, nil
}

// value is what is sent for a returned value.
func (s *server) value(out reflect.Value) any {
	switch v := out.Interface().(type) {
	case devices.EventSet:
		s.targets = append(s.targets, reflect.ValueOf(v))
		return len(s.targets) - 1
	case error:
		code, _ := errors.AsType[devices.Code](v)
		return failure{Code: code, Text: v.Error()}
	default:
		return v
	}
}
