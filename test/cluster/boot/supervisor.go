// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package boot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"gpuslice/test/cluster/node"
)

// stopLimit is how long a program may take to end by itself. The API server would wait for watches to end, which tests need not.
const stopLimit = 5 * time.Second

// supervisor runs the programs of the node. One that ends without being told to fails the group.
type supervisor struct {
	group    *errgroup.Group
	programs map[string]program
	logs     node.Dir
	grace    time.Duration

	mu      sync.Mutex
	running map[string]*process
	// killed is set when the node goes down for good.
	killed bool
}

type process struct {
	command *exec.Cmd
	// done is closed when the process has been waited for.
	done chan struct{}
	// stopping is guarded by the supervisor's mutex.
	stopping bool
}

func newSupervisor(group *errgroup.Group, programs map[string]program, logs node.Dir) *supervisor {
	return &supervisor{group: group, programs: programs, logs: logs, grace: stopLimit, running: map[string]*process{}}
}

// start starts a program that does not run. Its output is appended to its log.
func (s *supervisor) start(name string) error {
	program, ok := s.programs[name]
	if !ok {
		return fmt.Errorf("start %s: the node has no such program", name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.killed:
		return fmt.Errorf("start %s: the node goes down", name)
	case s.running[name] != nil:
		return fmt.Errorf("start %s: it already runs", name)
	}
	log, err := os.OpenFile(s.logs.Log(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	defer log.Close()
	command := exec.Command(program.path, program.args...)
	command.Stdout, command.Stderr = log, log
	// An interrupt at the terminal is for the command under test; the node ends after it.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{command: command, done: make(chan struct{})}
	s.running[name] = p
	s.group.Go(func() error { return s.wait(name, p) })
	return nil
}

func (s *supervisor) wait(name string, p *process) error {
	status := p.command.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, name)
	close(p.done)
	if p.stopping {
		return nil
	}
	if status == nil {
		status = errors.New("exit status 0")
	}
	return fmt.Errorf("%s ended unasked: %w\nthe end of its log:\n%s", name, status, tail(s.logs.Log(name)))
}

// stop ends a running program, by force if it takes too long, and waits until it has ended.
func (s *supervisor) stop(ctx context.Context, name string) error {
	s.mu.Lock()
	p := s.running[name]
	if p != nil {
		p.stopping = true
	}
	s.mu.Unlock()
	if p == nil {
		return fmt.Errorf("stop %s: it does not run", name)
	}
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	timer := time.NewTimer(s.grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop %s: %w", name, context.Cause(ctx))
	case <-timer.C:
	}
	if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", name, err)
	}
	<-p.done
	return nil
}

// kill ends every program at once. Nothing of the node outlives it, so nothing needs a grace period.
func (s *supervisor) kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killed = true
	var failed []error
	for name, p := range s.running {
		p.stopping = true
		if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			failed = append(failed, fmt.Errorf("kill %s: %w", name, err))
		}
	}
	return errors.Join(failed...)
}

// tail is the end of a log, or why there is none.
func tail(file string) string {
	const lines = 20
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
