// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"gpuslice/test/simdriver/wire"
)

// reply is the answer to a control.
type reply struct {
	Output string
	Error  string
}

// serveControl answers controls: one list of words in JSON each.
func (d *Daemon) serveControl(c *net.UnixConn) {
	in, out := json.NewDecoder(c), json.NewEncoder(c)
	for {
		var words []string
		if err := in.Decode(&words); err != nil {
			return
		}
		output, err := d.Control(words...)
		answer := reply{Output: output}
		if err != nil {
			answer.Error = err.Error()
		}
		if err := out.Encode(answer); err != nil {
			return
		}
	}
}

// Control runs a control in the daemon behind a control socket.
func Control(socket string, words ...string) (string, error) {
	folder, err := os.Open(filepath.Dir(socket))
	if err != nil {
		return "", fmt.Errorf("reach the daemon: %w", err)
	}
	defer folder.Close()
	c, err := net.Dial("unix", wire.Address(folder, filepath.Base(socket)))
	if err != nil {
		return "", fmt.Errorf("reach the daemon at %s: %w", socket, err)
	}
	defer c.Close()
	var answer reply
	if err := errors.Join(json.NewEncoder(c).Encode(words), json.NewDecoder(c).Decode(&answer)); err != nil {
		return "", fmt.Errorf("ask the daemon: %w", err)
	}
	if answer.Error != "" {
		return answer.Output, errors.New(answer.Error)
	}
	return answer.Output, nil
}

// control is one thing that may be done to the machine.
type control struct {
	name, usage string
	min, max    int // words after the name
	do          func(*Daemon, words) (string, error)
}

// Control runs a control: its name and its words, as Usage explains them.
func (d *Daemon) Control(all ...string) (string, error) {
	if len(all) == 0 {
		return "", errors.New("no control given\n" + Usage())
	}
	c, ok := find(controls, func(c control) bool { return c.name == all[0] })
	args := all[1:]
	switch {
	case !ok:
		return "", fmt.Errorf("unknown control %q\n%s", all[0], Usage())
	case len(args) < c.min || len(args) > c.max:
		return "", fmt.Errorf("usage: %s %s", c.name, c.usage)
	}
	output, err := c.do(d, args)
	// Most controls change what the files show.
	return output, errors.Join(err, d.Sync())
}

// Usage lists the controls.
func Usage() string {
	var b strings.Builder
	for _, c := range controls {
		fmt.Fprintf(&b, "  %s %s\n", c.name, c.usage)
	}
	return b.String()
}
