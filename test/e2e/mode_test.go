// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build e2e

package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpuslice/pkg/devices/nvml"
	"gpuslice/test/stage"
)

// holdRole is what this program is when a story needs somebody else who works with a GPU.
const holdRole = "hold"

// hold works with a GPU as NVIDIA's own tools do: it takes a handle through the library and answers "ok" to every line, after
// asking the driver, until its input ends.
func hold(driverRoot, index string) error {
	i, err := strconv.Atoi(index)
	if err != nil {
		return err
	}
	d := nvml.New(nvml.Options{DriverRoot: driverRoot})
	if err := d.Init(); err != nil {
		return fmt.Errorf("init: %w", err)
	}
	gpu, err := d.GPUByIndex(i)
	if err != nil {
		return fmt.Errorf("open GPU %d: %w", i, err)
	}
	fmt.Println("ok")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if _, err := d.UUID(gpu); err != nil {
			return fmt.Errorf("ask GPU %d: %w", i, err)
		}
		fmt.Println("ok")
	}
	return d.Shutdown()
}

// session is another process that works with a GPU.
type session struct {
	s     *scene
	cmd   *exec.Cmd
	input io.WriteCloser
	lines *bufio.Reader
}

func (s *scene) session(index int) *session {
	s.t.Helper()
	self, err := os.Executable()
	s.must(err)
	cmd := exec.CommandContext(s.t.Context(), self, holdRole, s.DriverRoot(), strconv.Itoa(index))
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	s.must(err)
	output, err := cmd.StdoutPipe()
	s.must(err)
	s.must(cmd.Start())
	held := &session{s: s, cmd: cmd, input: input, lines: bufio.NewReader(output)}
	held.answers()
	return held
}

func (h *session) answers() {
	h.s.t.Helper()
	line, err := h.lines.ReadString('\n')
	if err != nil || line != "ok\n" {
		h.s.t.Fatalf("the other process says %q, %v", line, err)
	}
}

// works wants the session to be undisturbed.
func (h *session) works() {
	h.s.t.Helper()
	if _, err := io.WriteString(h.input, "ask\n"); err != nil {
		h.s.t.Fatal(err)
	}
	h.answers()
}

func (h *session) end() {
	h.s.t.Helper()
	h.s.must(h.input.Close())
	h.s.must(h.cmd.Wait())
}

func (h *session) name() string { return fmt.Sprintf("pid %d (e2e.test)", h.cmd.Process.Pid) }

// attempts lists the GPUs on which the driver saw a call.
func (s *scene) attempts(call string) []int {
	gpus := []int{}
	for _, a := range s.Driver.Machine().Log() {
		if a.Call == call {
			gpus = append(gpus, a.GPU)
		}
	}
	return gpus
}

// P2, M11, M29: somebody else works with a GPU: its mode change and its reset are not tried, its holder is named, and both go
// through once it lets go. Our own session is never in the way, and a neighbour's is not disturbed.
func TestForeignSession(t *testing.T) {
	const cut = config + "layouts: {it: {mig: {fill: 1g}}}\nnodes: [{gpus: [{select: {index: [1, 2]}, layout: it, reset: when-idle}, {layout: whole}]}]\n"
	s := begin(t, "2xa100-sxm4-40gb,1xh100-sxm5-80gb", config+"nodes: [{gpus: [{select: {index: 0}, layout: whole}, {layout: whole, serve: none}]}]\n")
	s.offers(map[string]int64{"nvidia.com/gpu": 1})
	s.must(s.Run(t.Context(), stage.Workload{Name: "trainer", Resource: "nvidia.com/gpu"}))
	neighbour, ampere, hopper := s.session(0), s.session(1), s.session(2)
	s.must(s.Configure(t.Context(), cut))
	for _, h := range []*session{ampere, hopper} {
		s.conditionSays(h.name())
	}
	s.offers(map[string]int64{"nvidia.com/gpu": 3}) // not what is wanted, but what there is
	if tried := slices.Concat(s.attempts("SetMIGMode"), s.attempts("Reset")); len(tried) > 0 {
		t.Errorf("tried on GPUs %v while they are held", tried)
	}
	ampere.works()
	hopper.end()
	s.offers(map[string]int64{"nvidia.com/gpu": 2, "nvidia.com/mig-1g.10gb": 7})
	ampere.end()
	s.offers(map[string]int64{"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 7, "nvidia.com/mig-1g.5gb": 7})
	if resets := s.attempts("Reset"); !slices.Equal(resets, []int{1}) {
		t.Errorf("resets of GPUs %v, want 1 alone", resets)
	}
	neighbour.works()
	neighbour.end()
	s.sees("trainer", s.uuid(0, "")) // it runs on, and what runs on a node that is not ready is not
}

// An annotation makes the agent let go of a GPU, so that anybody's reset works; its devices stay in the list.
func TestReleaseByAnnotation(t *testing.T) {
	s := begin(t, "2xh100-sxm5-80gb", config+"nodes: [{gpus: [{layout: whole}]}]\n")
	s.offers(map[string]int64{"nvidia.com/gpu": 2})
	if err := s.Driver.Machine().Reset(1); err == nil {
		t.Fatal("the agent's session does not hold the GPU, so nothing is shown here")
	}
	s.must(s.Annotate(t.Context(), "gpuslice.dev/release", s.uuid(1, "")))
	s.within(soon, "reset by somebody else", func(context.Context) error { return s.Driver.Machine().Reset(1) })
	s.conditionSays("released")
	s.offers(map[string]int64{"nvidia.com/gpu": 2})
	s.must(s.Annotate(t.Context(), "gpuslice.dev/release", ""))
	s.within(soon, "taken back", func(context.Context) error {
		if err := s.Driver.Machine().Reset(1); err == nil {
			return fmt.Errorf("nobody holds it")
		}
		return nil
	})
}

// conditionSays waits until the condition's message has the text.
func (s *scene) conditionSays(text string) {
	s.t.Helper()
	s.within(soon, "condition says "+text, func(ctx context.Context) error {
		c, err := s.Condition(ctx)
		if err == nil && !strings.Contains(c.Message, text) {
			err = fmt.Errorf("%s: %s", c.Reason, c.Message)
		}
		return err
	})
}
