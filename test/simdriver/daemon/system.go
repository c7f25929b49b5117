// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"errors"
	"syscall"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
	"gpuslice/test/simdriver/driverroot"
)

var systemCalls = map[string]handler{
	"nvmlInit":                          initialize,
	"nvmlInit_v2":                       initialize,
	"nvmlInitWithFlags":                 initialize,
	"nvmlShutdown":                      shutdown,
	"nvmlSystemGetDriverVersion":        driverVersion,
	"nvmlSystemGetNVMLVersion":          libraryVersion,
	"nvmlSystemGetCudaDriverVersion":    cudaVersion,
	"nvmlSystemGetCudaDriverVersion_v2": cudaVersion,
}

// initialize counts: a process may open the library several times, and has one session. A session that a reboot of the
// machine has ended begins anew.
func initialize(r *request) error {
	r.initMu.Lock()
	defer r.initMu.Unlock()
	if d, err := r.session(); err == nil {
		err := d.Init()
		if err == nil {
			r.again(+1)
		}
		if !errors.Is(err, devices.ErrUninitialized) {
			return err
		}
		r.end()
	}
	who, sight, err := r.look()
	if err != nil {
		return err
	}
	d := r.daemon.node.Machine.Open(who)
	if err := d.Init(); err != nil {
		r.daemon.node.Machine.CloseClient(r.name())
		return err
	}
	r.begin(d, sight)
	return nil
}

// look finds out through the device nodes what the process may do and see.
func (r *request) look() (sim.Client, view, error) {
	sight := view{all: r.daemon.node.Machine.GPUs()}
	names := []string{driverroot.ControlNode, driverroot.ConfigNode, driverroot.MonitorNode}
	for _, g := range sight.all {
		names = append(names, driverroot.GPUNode(g.Minor))
	}
	answers, err := r.openNodes(names...)
	switch {
	case err != nil:
		return sim.Client{}, view{}, err
	case answers[driverroot.ControlNode] == syscall.ENOENT:
		return sim.Client{}, view{}, devices.ErrDriverNotLoaded
	case !usable(answers[driverroot.ControlNode]):
		return sim.Client{}, view{}, devices.ErrNoPermission
	}
	for i, g := range sight.all {
		if usable(answers[driverroot.GPUNode(g.Minor)]) {
			sight.visible = append(sight.visible, i)
		}
	}
	return sim.Client{
		Name: r.name(), PID: r.pid, PIDNamespace: r.namespace, Root: r.root,
		Config: usable(answers[driverroot.ConfigNode]), Monitor: usable(answers[driverroot.MonitorNode]),
	}, sight, nil
}

func shutdown(r *request) error {
	r.initMu.Lock()
	defer r.initMu.Unlock()
	d, err := r.session()
	if err != nil {
		return err
	}
	if r.again(0) > 1 {
		r.again(-1)
		return nil
	}
	err = d.Shutdown()
	r.end()
	r.daemon.node.Machine.CloseClient(r.name())
	return errors.Join(err, r.hold(""))
}

func driverVersion(r *request) error {
	d, err := r.session()
	if err != nil {
		return err
	}
	version, err := d.DriverVersion()
	if err != nil {
		return err
	}
	return r.putText(version, r.in.Uint32())
}

// libraryVersion is the API's version and the driver's.
func libraryVersion(r *request) error {
	if _, err := r.session(); err != nil {
		return err
	}
	return r.putText("13."+r.daemon.version(), r.in.Uint32())
}

// cudaVersion needs no session.
func cudaVersion(r *request) error {
	d, err := r.session()
	if errors.Is(err, devices.ErrUninitialized) {
		r.putUint32(r.daemon.node.data.cuda)
		return nil
	}
	version, err := d.CUDADriverVersion()
	r.putUint32(version)
	return err
}
