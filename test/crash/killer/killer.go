// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package killer ends an unmodified program with SIGKILL right before or right after its n-th effect on files, sockets and servers,
// as a debugger would: every system call of every thread stops, and in one of these stops the kernel is told to kill.
// Effects are counted over all threads, so that n means the same in every run.
package killer

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Point is where to kill.
type Point struct {
	Nth   int    // counted from 1, since Armed exists
	After bool   // the effect has happened; otherwise it never does
	Armed string // file; "" counts from the start
	Under string // folders, joined by ":"; effects elsewhere do not count
}

// Connections is a name for Under: what is written to TCP connections to a port, such as the API server's, counts too.
func Connections(port int) string { return "tcp/" + strconv.Itoa(port) }

// word begins the arguments of a program that lets Main act; the killer is the test program itself, started once more.
const word = "kill-at"

// Through is the command line that runs another one up to the point.
func (p Point) Through() ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("own program: %w", err)
	}
	return []string{self, word, strconv.Itoa(p.Nth), strconv.FormatBool(p.After), p.Armed, p.Under + realNames(p.Under)}, nil
}

// realNames adds the folders' names without links, which the kernel has for open files.
func realNames(under string) (more string) {
	for folder := range strings.SplitSeq(under, ":") {
		if name, err := filepath.EvalSymlinks(folder); err == nil && name != folder {
			more += ":" + name
		}
	}
	return more
}

// Main is to be called first in main or TestMain: it does not return in a process that Through describes.
// Such a process exits with 0 when the program was killed at the point, and with 1 when it ended otherwise.
func Main() {
	if len(os.Args) < 7 || os.Args[1] != word {
		return
	}
	nth, err := strconv.Atoi(os.Args[2])
	after, err2 := strconv.ParseBool(os.Args[3])
	if err = errors.Join(err, err2); err == nil {
		var effect string
		if effect, err = (Point{Nth: nth, After: after, Armed: os.Args[4], Under: os.Args[5]}).run(os.Args[6:]); err == nil {
			fmt.Fprintln(os.Stderr, effect)
			os.Exit(0)
		}
	}
	fmt.Fprintln(os.Stderr, "killer:", err)
	os.Exit(1)
}

// run returns what the program was doing at the point. The program dies with this process, whatever happens to it.
func (p Point) run(argv []string) (string, error) {
	runtime.LockOSThread() // a tracer is a thread
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("start: %w", err)
	}
	pid := cmd.Process.Pid
	forward(pid)
	if _, err := unix.Wait4(pid, nil, unix.WALL, nil); err != nil {
		return "", fmt.Errorf("wait for the start: %w", err)
	}
	if err := unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_EXITKILL); err != nil {
		return "", fmt.Errorf("trace: %w", err)
	}
	if err := unix.PtraceSyscall(pid, 0); err != nil {
		return "", fmt.Errorf("trace: %w", err)
	}
	return (&trace{Point: p, pid: pid, pending: map[int]string{}}).follow()
}

// forward passes a polite end on.
func forward(pid int) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		for range signals {
			_ = unix.Kill(pid, unix.SIGTERM) // gone already is fine
		}
	}()
}

// trace is one program being followed.
type trace struct {
	Point
	pid     int
	seen    int
	pending map[int]string // effect that the thread is in
}

// follow lets the threads run from stop to stop.
func (t *trace) follow() (string, error) {
	for {
		var status unix.WaitStatus
		tid, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return "", fmt.Errorf("wait: %w", err)
		case tid == t.pid && (status.Exited() || status.Signaled()):
			return "", fmt.Errorf("the program ended with %v after %d effects", status, t.seen)
		case !status.Stopped():
			continue
		}
		resume := 0
		switch sig := status.StopSignal(); sig {
		case unix.SIGTRAP | 0x80:
			if effect := t.stopped(tid); effect != "" {
				return effect, t.kill()
			}
		case unix.SIGTRAP, unix.SIGSTOP: // a new thread
		default:
			resume = int(sig)
		}
		if err := unix.PtraceSyscall(tid, resume); err != nil && !errors.Is(err, unix.ESRCH) {
			return "", fmt.Errorf("resume: %w", err)
		}
	}
}

// kill returns when nothing of the program is left.
func (t *trace) kill() error {
	if err := unix.Kill(t.pid, unix.SIGKILL); err != nil {
		return fmt.Errorf("kill: %w", err)
	}
	for {
		var status unix.WaitStatus
		tid, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for the end: %w", err)
		}
		if tid == t.pid && (status.Exited() || status.Signaled()) {
			return nil
		}
	}
}

// stopped counts the system call at whose begin or end a thread stands, and returns what it is if this is the point.
func (t *trace) stopped(tid int) string {
	call, err := read(tid)
	if err != nil {
		return "" // the thread is going
	}
	if !call.entry {
		effect := t.pending[tid]
		delete(t.pending, tid)
		return effect
	}
	what, path := call.effect(tid)
	if path == "" || !t.counts(path) {
		return ""
	}
	if t.seen++; t.seen != t.Nth {
		return ""
	}
	if t.After {
		t.pending[tid] = "killed after " + what + " " + path
		return ""
	}
	return "killed before " + what + " " + path
}

func (t *trace) counts(path string) bool {
	if t.Armed != "" {
		if _, err := os.Lstat(t.Armed); err != nil {
			return false
		}
	}
	for folder := range strings.SplitSeq(t.Under, ":") {
		if path == folder || strings.HasPrefix(path, folder+"/") {
			return true
		}
	}
	return false
}
