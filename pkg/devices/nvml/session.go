// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build cgo

package nvml

import (
	"fmt"
	"os"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpuslice/pkg/devices"
)

// session keeps what go-nvml returned behind the seam's handles. Equal objects get equal handles, so the tables stay as
// small as the node.
type session struct {
	opts Options

	mu   sync.Mutex
	lib  nvml.Interface
	next uint64
	gpus table[nvml.Device, devices.GPUHandle]
	gis  table[nvml.GpuInstance, devices.GIHandle]
	cis  table[nvml.ComputeInstance, devices.CIHandle]
}

// table maps objects to handles and back.
type table[O comparable, H ~uint64] struct {
	handles map[O]H
	objects map[H]O
}

func newTable[O comparable, H ~uint64]() table[O, H] {
	return table[O, H]{handles: map[O]H{}, objects: map[H]O{}}
}

// New makes a session; nothing is loaded before Init.
func New(opts Options) devices.Driver {
	s := &session{opts: opts}
	s.forget()
	return s
}

func (s *session) forget() {
	s.lib = nil
	s.gpus = newTable[nvml.Device, devices.GPUHandle]()
	s.gis = newTable[nvml.GpuInstance, devices.GIHandle]()
	s.cis = newTable[nvml.ComputeInstance, devices.CIHandle]()
}

// loaded is the library that this process is bound to: once the loader has resolved go-nvml's calls to a library it neither unloads
// that one nor turns to another.
var loaded library

type library struct {
	mu   sync.Mutex
	file os.FileInfo // nil: none yet
}

// isOther says that what is installed now is not what is loaded; what is asked about first is.
func (l *library) isOther(path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	file, err := os.Stat(path)
	if err != nil {
		return false // the loader found it elsewhere, and will again
	}
	if l.file == nil {
		l.file = file
	}
	return !os.SameFile(l.file, file)
}

func (s *session) Init() error {
	path := findLibrary(s.opts.DriverRoot)
	if path != libraryName {
		if err := whole(path); err != nil {
			return err
		}
	}
	lib := nvml.New(nvml.WithLibraryPath(path))
	ret := lib.Init()
	if ret == nvml.ERROR_LIBRARY_NOT_FOUND {
		return notFound(s.opts.DriverRoot, libraryName, true)
	}
	outdated := loaded.isOther(path)
	switch {
	case ret == nvml.SUCCESS:
	case outdated:
		return fmt.Errorf("%w: %w", devices.ErrOutdatedLibrary, code(ret))
	default:
		return code(ret)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lib = lib
	return nil
}

func (s *session) Shutdown() error {
	s.mu.Lock()
	lib := s.lib
	s.forget()
	s.mu.Unlock()
	if lib == nil {
		return devices.ErrUninitialized
	}
	return code(lib.Shutdown())
}

// library returns the open library if it has the symbol; "" asks for none.
func (s *session) library(symbol string) (nvml.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lib == nil {
		return nil, devices.ErrUninitialized
	}
	if symbol != "" && s.lib.Extensions().LookupSymbol(symbol) != nil {
		return nil, devices.ErrFunctionNotFound
	}
	return s.lib, nil
}

// code turns a return into the seam's error.
func code(ret nvml.Return) error {
	if ret == nvml.SUCCESS {
		return nil
	}
	return devices.Code(ret)
}

// intern returns the handle of an object.
func intern[O comparable, H ~uint64](s *session, t *table[O, H], o O) H {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, ok := t.handles[o]; ok {
		return h
	}
	s.next++
	h := H(s.next)
	t.handles[o], t.objects[h] = h, o
	return h
}

// resolve returns the object of a handle, once the library is known to have the symbol that is about to be called.
func resolve[O comparable, H ~uint64](s *session, t *table[O, H], h H, symbol string) (O, error) {
	var none O
	if _, err := s.library(symbol); err != nil {
		return none, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := t.objects[h]
	if !ok {
		return none, devices.ErrInvalidArgument
	}
	return o, nil
}

func (s *session) gpu(h devices.GPUHandle, symbol string) (nvml.Device, error) {
	return resolve(s, &s.gpus, h, symbol)
}

func (s *session) gi(h devices.GIHandle, symbol string) (nvml.GpuInstance, error) {
	return resolve(s, &s.gis, h, symbol)
}

func (s *session) ci(h devices.CIHandle, symbol string) (nvml.ComputeInstance, error) {
	return resolve(s, &s.cis, h, symbol)
}
