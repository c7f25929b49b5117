// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package hook is what a container runtime runs before a container's process starts: it hands the container to the agent and
// waits until the agent says that its limits stand. It is the client's half of the protocol of internal/limits, in nothing but
// the standard library, because it runs on the host as part of every start.
//
// A request and its answer are one JSON document each on a Unix socket.
package hook

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

const (
	// Name is that of the program.
	Name = "gpuslice-hook"
	// SocketName is where the agent listens, below the kubelet's directory.
	SocketName = "plugins/gpu.nvidia.com/gpuslice.sock"
	// Limit is how long a start waits for the agent: less than the 5 s that a start may lose.
	Limit = 4500 * time.Millisecond
	// MaxMessage bounds what either side reads.
	MaxMessage = 64 << 10
	// maxState bounds the state that a runtime hands over; it has the annotations of the container in it.
	maxState = 1 << 20
	// retryEvery spaces out attempts while the agent starts anew.
	retryEvery = 50 * time.Millisecond

	defaultSocket = "/var/lib/kubelet/" + SocketName
)

// Request is a container that is about to start.
type Request struct {
	ID      string   `json:"id"`
	PID     int      `json:"pid"` // of its first process
	PodUID  string   `json:"podUID"`
	Name    string   `json:"name"`    // of the container in its pod
	Devices []string `json:"devices"` // UUIDs
}

// Answer is empty when the container may start.
type Answer struct {
	Error string `json:"error,omitempty"`
}

// Run does the work of the program. The state of the container, as the OCI runtime specification has it, comes in on stdin.
func Run(ctx context.Context, args []string, stdin io.Reader) error {
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	flags := flag.NewFlagSet(Name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // what is wrong is in the error
	socket := flags.String("socket", defaultSocket, "where the agent listens")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("no device is named; the devices come after --socket=PATH")
	}
	r, err := read(ctx, stdin)
	if err != nil {
		return err
	}
	r.Devices = flags.Args()
	if err := ask(ctx, *socket, r); err != nil {
		return fmt.Errorf("the memory of %s is not limited for container %s/%s: %w", strings.Join(r.Devices, ", "), r.PodUID, r.Name, err)
	}
	return nil
}

// state is what is read of an OCI runtime's state.
type state struct {
	ID          string            `json:"id"`
	PID         int               `json:"pid"`
	Annotations map[string]string `json:"annotations"`
}

// Annotations in which runtimes say whose container it is: those of containerd, then those of CRI-O.
var (
	podUIDKeys = []string{"io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"}
	nameKeys   = []string{"io.kubernetes.cri.container-name", "io.kubernetes.container.name"}
)

// read bounds the time, too: a runtime that never closes the pipe shall not hang the start.
func read(ctx context.Context, stdin io.Reader) (Request, error) {
	type result struct {
		request Request
		err     error
	}
	done := make(chan result, 1)
	go func() {
		r, err := parse(stdin)
		done <- result{r, err}
	}()
	select {
	case r := <-done:
		return r.request, r.err
	case <-ctx.Done():
		return Request{}, fmt.Errorf("the runtime handed over no state: %w", ctx.Err())
	}
}

func parse(stdin io.Reader) (Request, error) {
	var s state
	if err := json.NewDecoder(io.LimitReader(stdin, maxState)).Decode(&s); err != nil {
		return Request{}, fmt.Errorf("read the state that the runtime hands over: %w", err)
	}
	r := Request{ID: s.ID, PID: s.PID, PodUID: s.first(podUIDKeys), Name: s.first(nameKeys)}
	switch {
	case r.ID == "" || r.PID <= 0:
		return Request{}, fmt.Errorf("the state that the runtime hands over has id %q and pid %d", r.ID, r.PID)
	case r.PodUID == "" || r.Name == "":
		return Request{}, fmt.Errorf("the runtime does not say whose container %s is: it has no annotation %s and %s, or %s and %s",
			r.ID, podUIDKeys[0], nameKeys[0], podUIDKeys[1], nameKeys[1])
	}
	return r, nil
}

func (s state) first(keys []string) string {
	for _, key := range keys {
		if value := s.Annotations[key]; value != "" {
			return value
		}
	}
	return ""
}

// errRefused is wrapped by what the agent itself says.
var errRefused = errors.New("the agent refuses it")

// ask asks until there is an answer: an agent that starts anew is back within the limit.
func ask(ctx context.Context, socket string, r Request) error {
	for {
		err := askOnce(ctx, socket, r)
		if err == nil || errors.Is(err, errRefused) {
			return err
		}
		timer := time.NewTimer(retryEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("the agent of this node does not answer on %s within %v: %w", socket, Limit, err)
		}
	}
}

func askOnce(ctx context.Context, socket string, r Request) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if err := json.NewEncoder(conn).Encode(r); err != nil {
		return err
	}
	var a Answer
	if err := json.NewDecoder(io.LimitReader(conn, MaxMessage)).Decode(&a); err != nil {
		return err
	}
	if a.Error != "" {
		return fmt.Errorf("%w: %s", errRefused, a.Error)
	}
	return nil
}
