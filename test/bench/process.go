// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is the running plugin.
type process struct {
	cmd     *exec.Cmd
	started time.Time // before the exec
	log     string
	ended   chan struct{}
}

func launch(argv []string, log string) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), log: log, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if err := warm(p.cmd.Path); err != nil {
		return nil, err
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a run that ends badly leaves no plugin behind
	p.started = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the plugin: %w", err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ends is asked by nobody: while it should run its end is an error, and later it is made to
		close(p.ended)
	}()
	return p, nil
}

// warm reads a program once: a kernel that reclaims memory ahead of need may have dropped it since the last start, and how fast a
// disk brings it back is not what is measured.
func warm(program string) error {
	file, err := os.Open(program)
	if err != nil {
		return fmt.Errorf("read the plugin: %w", err)
	}
	defer file.Close()
	_, err = io.Copy(io.Discard, file)
	return err
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// stop ends the plugin as the kubelet would: SIGTERM, and SIGKILL when it does not listen.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.ended:
		return nil
	case <-time.After(30 * time.Second):
	}
	_ = p.cmd.Process.Kill() // as above
	<-p.ended
	return errors.New("the plugin does not end within 30 s of SIGTERM")
}

// lastWords is the end of its log.
func (p *process) lastWords() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-2000):]))
}

// ticks is the CPU time that the process has taken, in hundredths of a second.
func (p *process) ticks() (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid()))
	if err != nil {
		return 0, err
	}
	return parseTicks(string(text))
}

// parseTicks adds user and system time of a line of /proc/PID/stat: the 14th and 15th field, counted from behind the command's
// name, which may contain anything.
func parseTicks(stat string) (int, error) {
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("stat has %d fields after the name", len(fields))
	}
	user, err := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	return user + system, errors.Join(err, err2)
}

// memory is what the process has resident: anonymous, and all of it, in MB of a million bytes.
func (p *process) memory() (anonymous, total float64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid()))
	if err != nil {
		return 0, 0, err
	}
	return parseMemory(string(text))
}

func parseMemory(status string) (anonymous, total float64, err error) {
	found := map[string]float64{}
	for line := range strings.Lines(status) {
		key, rest, _ := strings.Cut(line, ":")
		if kib, isSize := strings.CutSuffix(strings.TrimSpace(rest), " kB"); isSize {
			if found[key], err = strconv.ParseFloat(kib, 64); err != nil {
				return 0, 0, fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	if found["RssAnon"] == 0 || found["VmRSS"] == 0 {
		return 0, 0, errors.New("status has no RssAnon or VmRSS")
	}
	const kib, mb = 1024, 1e6
	return found["RssAnon"] * kib / mb, found["VmRSS"] * kib / mb, nil
}
