// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"gpuslice/pkg/devices"
)

// socketFolder is where the persistence daemon of the real driver has its socket, below the driver root.
const socketFolder = "run/nvidia-persistenced"

// SocketFolder is the folder of the daemon's socket, which is called "socket".
func SocketFolder(driverRoot string) string { return filepath.Join(driverRoot, socketFolder) }

// maxAddress is what fits into a socket address, with its closing zero.
const maxAddress = 107

// Address names a socket in an open folder, which may lie too deep for a socket address.
func Address(folder *os.File, name string) string {
	path := filepath.Join(folder.Name(), name)
	if len(path) <= maxAddress {
		return path
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), name)
}

// Client is a session with the daemon without the C library, for static programs. It opens device nodes by the same rules.
type Client struct {
	root string
	conn net.Conn
}

// Dial connects a program that is installed under a driver root; "/" is the root of a container too.
func Dial(root string) (*Client, error) {
	var errs []error
	for _, folder := range []string{SocketFolder(root), SocketFolder("/"), "/var/" + socketFolder} {
		conn, err := dial(folder)
		if err == nil {
			return &Client{root: root, conn: conn}, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("%w: %w", devices.ErrDriverNotLoaded, errors.Join(errs...))
}

func dial(folder string) (net.Conn, error) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return net.Dial("unix", Address(dir, "socket"))
}

// Close ends the session.
func (c *Client) Close() error { return c.conn.Close() }

// Call makes one call with inputs of fixed size or strings, and returns its outputs. An answer other than success is a
// devices.Code.
func (c *Client) Call(symbol string, inputs ...any) ([][]byte, error) {
	body, err := encode(symbol, inputs)
	if err != nil {
		return nil, err
	}
	if err := WriteFrame(c.conn, Frame{Tag: TagCall, Body: body}); err != nil {
		return nil, err
	}
	for {
		f, err := ReadFrame(c.conn)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", symbol, err)
		case f.Tag == TagProbe:
			if err := WriteFrame(c.conn, Frame{Tag: TagProbe, Body: c.probe(f.Body)}); err != nil {
				return nil, err
			}
		case f.Tag == TagHold: // it ends before anybody could ask
		case f.Tag != 0:
			return nil, fmt.Errorf("%s: %w", symbol, devices.Code(f.Tag))
		default:
			return splitOutputs(f.Body)
		}
	}
}

func encode(symbol string, inputs []any) ([]byte, error) {
	body := append([]byte(symbol), 0)
	for _, in := range inputs {
		if text, ok := in.(string); ok {
			body = append(append(body, text...), 0)
			continue
		}
		var err error
		if body, err = binary.Append(body, binary.LittleEndian, in); err != nil {
			return nil, fmt.Errorf("%s: %w", symbol, err)
		}
	}
	return body, nil
}

// probe opens device nodes for the daemon.
func (c *Client) probe(names []byte) []byte {
	base := "/"
	if _, err := os.Stat(filepath.Join(c.root, "dev/nvidiactl")); err == nil {
		base = c.root
	}
	var answers []byte
	for name := range bytes.SplitSeq(bytes.TrimSuffix(names, []byte{0}), []byte{0}) {
		answers = binary.LittleEndian.AppendUint32(answers, tryNode(filepath.Join(base, "dev"), string(name)))
	}
	return answers
}

func tryNode(dev, name string) uint32 {
	mode := os.O_RDWR
	if strings.HasPrefix(name, "nvidia-caps/") {
		mode = os.O_RDONLY
	}
	node, err := os.OpenFile(filepath.Join(dev, name), mode, 0)
	if err == nil {
		_ = node.Close() // opening was the question
		return 0
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return uint32(errno)
	}
	return uint32(syscall.EIO)
}
