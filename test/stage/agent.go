// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"gpuslice/test/cluster/node"
)

// Agent is a running process of ours.
type Agent struct {
	cmd   *exec.Cmd
	log   *os.File
	ended chan error
}

const listen = "127.0.0.1:9410"

// AgentArgs is the command line of the agent on this node; extra flags override.
func (s *Stage) AgentArgs(extra ...string) []string {
	args := []string{
		"run", "--api=device-plugin,dra", "--hardware=nvml",
		"--driver-root=" + s.root, "--proc-root=" + s.paths.Proc, "--sys-root=" + s.paths.Sys, "--dev-root=" + s.paths.Dev,
		"--state-dir=" + stateDir, "--cdi-dir=" + node.CDIDir, "--kubelet-dir=" + node.KubeletDir,
		"--kubeconfig=" + s.Dir.Kubeconfig(), "--node-name=" + node.Name,
		"--config=configmap:" + Namespace + "/" + ConfigMap, "--apply-jitter=0s", "--poll=2s", "--listen=" + listen,
		"--nvidia-cdi-hook=" + s.Dir.Program("nvidia-cdi-hook"), "-v=2",
	}
	return append(args, extra...)
}

// StartAgent starts gpu-plugin as a process of the host.
func (s *Stage) StartAgent(ctx context.Context, extra ...string) error {
	return s.StartAgentIn(ctx, nil, extra...)
}

// StartAgentIn starts gpu-plugin through another program, such as one that changes namespaces first.
func (s *Stage) StartAgentIn(ctx context.Context, through []string, extra ...string) error {
	if err := s.LaunchAgent(through, extra...); err != nil {
		return err
	}
	return s.UntilReady(ctx)
}

// LaunchAgent is StartAgentIn without waiting for the agent.
func (s *Stage) LaunchAgent(through []string, extra ...string) error {
	log, err := os.OpenFile(filepath.Join(s.logs, "agent.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	argv := slices.Concat(through, []string{filepath.Join(s.bin, "gpu-plugin")}, s.AgentArgs(extra...))
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("start agent: %w", err), log.Close())
	}
	a := &Agent{cmd: cmd, log: log, ended: make(chan error, 1)}
	go func() { a.ended <- cmd.Wait() }()
	s.agent = a
	return nil
}

// Another is a second agent on the same node, with an address of its own; in a pod it has no process here.
type Another struct {
	cmd *exec.Cmd
	url string
}

// Second starts a second agent beside the first.
func (s *Stage) Second(ctx context.Context) (*Another, error) {
	const address = "127.0.0.1:9411"
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "gpu-plugin"), s.AgentArgs("--listen="+address)...)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start second agent: %w", err)
	}
	return &Another{cmd: cmd, url: "http://" + address}, nil
}

// End ends the second agent at once.
func (a *Another) End() {
	_ = a.cmd.Process.Kill() // it may have ended
	_ = a.cmd.Wait()         // it was killed
}

// Ready says whether the second agent is.
func (a *Another) Ready(ctx context.Context) error {
	_, err := get(ctx, a.url+"/readyz")
	return err
}

// Status reads /status of the second agent.
func (a *Another) Status(ctx context.Context) (map[string]any, error) { return statusAt(ctx, a.url) }

// PID of the agent that StartAgent started; 0 if there is none.
func (s *Stage) PID() int {
	if s.agent == nil {
		return 0
	}
	return s.agent.cmd.Process.Pid
}

// Alive says that the agent started by StartAgent still runs.
func (s *Stage) Alive() error {
	select {
	case err := <-s.agent.ended:
		s.agent.ended <- err
		return fmt.Errorf("agent ended: %w", cmpErr(err))
	default:
		return nil
	}
}

func cmpErr(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// UntilReady waits until the agent says that it is ready.
func (s *Stage) UntilReady(ctx context.Context) error {
	return node.Until(ctx, time.Minute, "agent ready", func(ctx context.Context) error {
		if err := s.Alive(); err != nil {
			return node.Hopeless(err)
		}
		_, err := get(ctx, "http://"+listen+"/readyz")
		return err
	})
}

// Healthy says with nil that the agent's process is up, ready or not.
func (s *Stage) Healthy(ctx context.Context) error {
	_, err := get(ctx, "http://"+listen+"/healthz")
	return err
}

// Status reads /status of the agent.
func (s *Stage) Status(ctx context.Context) (map[string]any, error) {
	return statusAt(ctx, "http://"+listen)
}

func statusAt(ctx context.Context, url string) (map[string]any, error) {
	text, err := get(ctx, url+"/status")
	if err != nil {
		return nil, err
	}
	var doc map[string]any
	return doc, json.Unmarshal(text, &doc)
}

func get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return text, err
}

// StopAgent ends the agent as the kubelet would: SIGTERM, and SIGKILL when it does not listen.
func (s *Stage) StopAgent(ctx context.Context) error { return s.endAgent(ctx, syscall.SIGTERM) }

// KillAgent ends the agent in the middle of whatever it does.
func (s *Stage) KillAgent(ctx context.Context) error { return s.endAgent(ctx, syscall.SIGKILL) }

func (s *Stage) endAgent(ctx context.Context, signal syscall.Signal) error {
	a := s.agent
	if a == nil {
		return nil
	}
	s.agent = nil
	defer a.log.Close()
	if err := a.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case err := <-a.ended:
		var exit *exec.ExitError
		if signal == syscall.SIGTERM && errors.As(err, &exit) {
			return fmt.Errorf("agent after SIGTERM: %w", err)
		}
		return nil
	case <-time.After(30 * time.Second):
		return errors.Join(errors.New("agent does not end within 30 s of SIGTERM"), a.cmd.Process.Kill())
	case <-ctx.Done():
		return errors.Join(ctx.Err(), a.cmd.Process.Kill())
	}
}
