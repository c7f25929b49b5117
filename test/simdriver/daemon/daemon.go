// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package daemon is a simulated NVIDIA driver: it serves one simulated machine to every process that loads the library.
//
// The library reaches it on a Unix socket at the place of the driver's persistence daemon, which container tools mount into
// containers by themselves. A process is one session of the machine, however many connections it has; the kernel says who it
// is, and the session ends when its last connection is closed. Which GPUs and instances a process sees is decided by open(2)
// of their device nodes in that process. The files of an installed driver are rendered, and follow what happens.
//
// Tests reach into the machine through a second socket, see Control.
package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"

	"gpuslice/pkg/devices/sim"
	"gpuslice/test/simdriver/driverroot"
	"gpuslice/test/simdriver/library"
	"gpuslice/test/simdriver/wire"
)

// Options of a daemon.
type Options struct {
	Node      *Node
	Paths     driverroot.Paths
	Artifacts library.Artifacts
	Age       library.Age // default: library.New
	// ControlSocket is where Control is served; "" serves it nowhere.
	ControlSocket string
}

// Daemon is a running driver.
type Daemon struct {
	node      *Node
	root      *driverroot.Root
	listeners []net.Listener
	work      errgroup.Group

	mu          sync.Mutex // guards what follows
	closed      bool
	installed   string // version of the driver
	loaded      bool
	clients     map[int]*client // by pid
	calls       map[int]map[string]int
	connections map[net.Conn]bool
	sets        uint64 // event sets ever made
	faults      map[int]func()
	started     []started
}

// started is a process that a control let use a GPU.
type started struct {
	number int
	sim.Process
}

// Start renders the files and serves the node until Close.
func Start(o Options) (*Daemon, error) {
	if o.Age == "" {
		o.Age = library.New
	}
	root, err := driverroot.New(o.Paths, o.Artifacts, o.Age)
	if err != nil {
		return nil, err
	}
	d := &Daemon{
		node: o.Node, root: root, installed: o.Node.data.version, loaded: o.Node.loaded,
		clients: map[int]*client{}, calls: map[int]map[string]int{}, connections: map[net.Conn]bool{},
		faults: map[int]func(){},
	}
	if err := d.Sync(); err != nil {
		return nil, err
	}
	o.Node.Machine.SetHooks(sim.Hooks{AfterEffect: func(string) { d.follow() }})
	folder := wire.SocketFolder(o.Paths.Root)
	if err := d.listen(filepath.Join(folder, "socket"), 0o777, d.serveLibrary); err != nil {
		return nil, err
	}
	if o.ControlSocket == "" {
		return d, nil
	}
	if err := d.listen(o.ControlSocket, 0o700, d.serveControl); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// listen serves a socket; one that an earlier daemon left is replaced.
func (d *Daemon) listen(path string, mode fs.FileMode, serve func(*net.UnixConn)) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("listen: %w", err)
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer folder.Close()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: wire.Address(folder, filepath.Base(path)), Net: "unix"})
	if err != nil {
		return fmt.Errorf("listen on %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // its name is that of a folder which is closed by then
	if err := os.Chmod(path, mode); err != nil {
		return errors.Join(fmt.Errorf("listen: %w", err), l.Close())
	}
	d.listeners = append(d.listeners, l)
	d.work.Go(func() error { return d.accept(l, serve) })
	return nil
}

func (d *Daemon) accept(l *net.UnixListener, serve func(*net.UnixConn)) error {
	for {
		c, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		if !d.admit(c) {
			c.Close()
			return nil
		}
		d.work.Go(func() error {
			defer d.dismiss(c)
			serve(c)
			return nil
		})
	}
}

func (d *Daemon) admit(c net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.connections[c] = true
	}
	return !d.closed
}

func (d *Daemon) dismiss(c net.Conn) {
	c.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.connections, c)
}

// Close ends every session and stops serving. The files stay, as those of a driver do whose daemon has died.
func (d *Daemon) Close() error {
	d.mu.Lock()
	d.closed = true
	var errs []error
	for _, l := range d.listeners {
		errs = append(errs, l.Close())
	}
	for c := range d.connections {
		c.Close()
	}
	for _, cl := range d.clients {
		d.node.Machine.CloseClient(cl.name())
	}
	d.mu.Unlock()
	return errors.Join(append(errs, d.Wait())...)
}

// Wait returns when the daemon has stopped serving, with why if it was not closed.
func (d *Daemon) Wait() error { return d.work.Wait() }

// Machine is what is served.
func (d *Daemon) Machine() *sim.Machine { return d.node.Machine }

// Sync makes the files follow the machine. Calls and controls do so by themselves; it is for tests that change the machine.
func (d *Daemon) Sync() error {
	d.mu.Lock()
	state := driverroot.State{Version: d.installed, Loaded: d.loaded, BootID: d.node.Machine.BootID()}
	d.mu.Unlock()
	for _, g := range d.node.Machine.GPUs() {
		state.GPUs = append(state.GPUs, driverroot.GPU{GPU: g, CanMIG: len(d.node.data.profiles[g.Number]) > 0})
	}
	return d.root.Apply(state)
}

// follow is Sync where nobody can be told.
func (d *Daemon) follow() {
	if err := d.Sync(); err != nil {
		fmt.Fprintln(os.Stderr, "simdriver: files do not follow the machine:", err)
	}
}

// Calls counts what a process asked of the library since the daemon started, by symbol.
func (d *Daemon) Calls(pid int) map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	counts := map[string]int{}
	maps.Copy(counts, d.calls[pid])
	return counts
}

func (d *Daemon) count(pid int, symbol string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.calls[pid] == nil {
		d.calls[pid] = map[string]int{}
	}
	d.calls[pid][symbol]++
}

func (d *Daemon) version() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.installed
}

func (d *Daemon) nextSet() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sets++
	return d.sets
}

// used is the memory that started processes take of a GPU or of a MIG device.
func (d *Daemon) used(at place) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	total := uint64(0)
	for _, p := range d.started {
		if p.number == at.number && (!at.mig || p.GI == at.gi && p.CI == at.ci) {
			total += p.MemoryBytes
		}
	}
	return total
}

func numberText(n int) string { return strconv.Itoa(n) }
