// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package limits is the socket on which the hook of a starting container finds the agent. Its other half is internal/limits/hook.
package limits

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"gpuslice/internal/agent"
	"gpuslice/internal/beat"
	"gpuslice/internal/limits/hook"
)

const (
	// answerLimit is how long one request may take: the hook waits a little longer, and so gets the reason.
	answerLimit = 4 * time.Second
	// maxRequests are answered at once; more wait in the socket's queue.
	maxRequests = 64
	// watchEvery is how often the server looks whether its socket is still there: often enough for a hook that finds none to be
	// answered in the time that it waits.
	watchEvery = 2 * time.Second
	// retryEvery spaces out attempts to make the socket.
	retryEvery = time.Second
)

// Agent is what the server needs of the owner of the GPUs.
type Agent interface {
	LimitMemory(ctx context.Context, c agent.Container, devices []string) error
}

// Server answers hooks.
type Server struct {
	agent Agent
	path  string
}

// New makes a server that does nothing before Run.
func New(a Agent, kubeletDir string) *Server {
	return &Server{agent: a, path: filepath.Join(kubeletDir, hook.SocketName)}
}

// Run serves until ctx ends. A socket that cannot be made, or that somebody removes, is made again.
func (s *Server) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := s.serve(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Containers with bounded shares cannot start; trying again", "socket", s.path)
		}
		pause(ctx, retryEvery)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// serve lives as long as one socket. What an earlier process left is replaced: the agent's lock says that nobody serves it.
func (s *Server) serve(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o750); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("listen: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxRequests + 2)
	group.Go(func() error {
		defer listener.Close()
		return s.watch(ctx)
	})
	group.Go(func() error { return s.accept(ctx, group, listener) })
	return group.Wait()
}

var errSocketGone = errors.New("the socket was removed")

// watch returns when the server is to end.
func (s *Server) watch(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-beat.After(watchEvery):
		}
		if _, err := os.Lstat(s.path); errors.Is(err, fs.ErrNotExist) {
			return errSocketGone
		}
	}
}

func (s *Server) accept(ctx context.Context, group *errgroup.Group, listener *net.UnixListener) error {
	if err := os.Chmod(s.path, 0o600); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	for {
		conn, err := listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		group.Go(func() error {
			s.answer(ctx, conn)
			return nil
		})
	}
}

// answer serves one connection, of which one request is read.
func (s *Server) answer(ctx context.Context, conn *net.UnixConn) {
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	if err := conn.SetDeadline(time.Now().Add(hook.Limit)); err != nil {
		return // the hook is gone
	}
	logger := klog.FromContext(ctx)
	r, err := receive(conn)
	if err == nil {
		logger = logger.WithValues("container", r.ID, "pod", r.PodUID, "name", r.Name, "devices", r.Devices)
		err = s.agent.LimitMemory(ctx, agent.Container{ID: r.ID, PID: r.PID, PodUID: r.PodUID, Name: r.Name}, r.Devices)
	}
	var a hook.Answer
	if err != nil {
		logger.Error(err, "Container may not start")
		a.Error = err.Error()
	} else {
		logger.V(2).Info("Memory limited")
	}
	if err := json.NewEncoder(conn).Encode(a); err != nil {
		logger.Error(err, "Hook not answered")
	}
}

// receive reads the request of a process of root.
func receive(conn *net.UnixConn) (hook.Request, error) {
	uid, err := peer(conn)
	if err != nil {
		return hook.Request{}, err
	}
	if uid != 0 {
		return hook.Request{}, fmt.Errorf("uid %d asks, and limits are set for root alone", uid)
	}
	var r hook.Request
	if err := json.NewDecoder(io.LimitReader(conn, hook.MaxMessage)).Decode(&r); err != nil {
		return hook.Request{}, fmt.Errorf("read request of at most %d bytes: %w", hook.MaxMessage, err)
	}
	return r, nil
}

// peer is the user of the other side, as the kernel saw it when it connected.
func peer(conn *net.UnixConn) (uid uint32, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("find out who asks: %w", err)
	}
	var cred *unix.Ucred
	var asked error
	err = raw.Control(func(fd uintptr) { cred, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, asked); err != nil {
		return 0, fmt.Errorf("find out who asks: %w", err)
	}
	return cred.Uid, nil
}
