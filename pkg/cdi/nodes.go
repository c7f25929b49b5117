// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package cdi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gpuslice/pkg/regular"
)

// NodeSource knows the device nodes of GPUs and instances.
type NodeSource interface {
	// GPU returns the node of the GPU with a minor number.
	GPU(minor int) (Node, error)
	// Instance returns the capability nodes of a GPU instance and its compute instance.
	Instance(minor, gi, ci int) ([]Node, error)
	// Control returns the nodes that every container with a GPU needs.
	Control() ([]Node, error)
}

// gpuMajor is the major number of /dev/nvidia*, assigned to NVIDIA in the kernel's devices.txt.
const gpuMajor = 195

// Roots reads nodes where the driver shows them.
type Roots struct {
	Dev  string // holds dev/nvidia0
	Proc string // holds driver/nvidia/capabilities and devices
}

// GPU requires that the node exists: one that is missing would be missing in the container.
func (r Roots) GPU(minor int) (Node, error) {
	return r.node(fmt.Sprintf("/dev/nvidia%d", minor))
}

// optional are the nodes of kernel modules beside the driver's own.
var optional = []string{"/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"}

// Print changes when a node that every container needs comes, goes or gets another number.
func (r Roots) Print() string {
	nodes, err := r.Control()
	return fmt.Sprint(nodes, err)
}

// Control requires the one without which no library opens. The others are there when their kernel module is loaded, and a
// container that starts before has to do without.
func (r Roots) Control() ([]Node, error) {
	first, err := r.node("/dev/nvidiactl")
	if err != nil {
		return nil, err
	}
	nodes := []Node{first}
	for _, path := range optional {
		n, err := r.node(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func (r Roots) node(path string) (Node, error) {
	host := filepath.Join(r.Dev, path)
	var st unix.Stat_t
	if err := unix.Stat(host, &st); err != nil {
		return Node{}, fmt.Errorf("device node %s: %w", host, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return Node{}, fmt.Errorf("device node %s is not a character device", host)
	}
	n := Node{Path: path, Major: int64(unix.Major(st.Rdev)), Minor: int64(unix.Minor(st.Rdev))}
	if host != path {
		n.HostPath = host
	}
	return n, nil
}

// Instance takes major and minor from /proc without a look at /dev, where the driver makes these nodes only when asked.
func (r Roots) Instance(minor, gi, ci int) ([]Node, error) {
	major, err := r.capMajor()
	if err != nil {
		return nil, err
	}
	dir := fmt.Sprintf("driver/nvidia/capabilities/gpu%d/mig/gi%d", minor, gi)
	nodes := []Node{}
	for _, file := range []string{dir + "/access", fmt.Sprintf("%s/ci%d/access", dir, ci)} {
		n, err := r.capMinor(filepath.Join(r.Proc, file))
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, Node{Path: fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", n), Major: major, Minor: n})
	}
	return nodes, nil
}

// maxProc is far above what the kernel says in any file that is read here.
const maxProc = 64 << 10

func (r Roots) capMajor() (int64, error) {
	path := filepath.Join(r.Proc, "devices")
	text, err := regular.ReadFile(path, maxProc)
	if err != nil {
		return 0, fmt.Errorf("read major number of nvidia-caps: %w", err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) == 2 && fields[1] == "nvidia-caps" {
			return strconv.ParseInt(fields[0], 10, 32)
		}
	}
	return 0, fmt.Errorf("%s does not list nvidia-caps; is the driver loaded with MIG support?", path)
}

func (r Roots) capMinor(path string) (int64, error) {
	text, err := regular.ReadFile(path, maxProc)
	if err != nil {
		return 0, fmt.Errorf("read capability: %w", err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "DeviceFileMinor:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 32)
			if err != nil || n < 0 {
				return 0, fmt.Errorf("%s: DeviceFileMinor %q is not a minor number", path, strings.TrimSpace(value))
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("%s has no DeviceFileMinor", path)
}

// Computed answers with the numbers that the driver's rule gives, for hardware that exists in memory only.
type Computed struct{}

// capMajorComputed is the major number that the dynamic range usually gives to nvidia-caps.
const capMajorComputed = 235

// GPU is /dev/nvidia<minor>.
func (Computed) GPU(minor int) (Node, error) {
	return Node{Path: fmt.Sprintf("/dev/nvidia%d", minor), Major: gpuMajor, Minor: int64(minor)}, nil
}

// Instance follows the kernel module's numbering: 135 capabilities per GPU after config and monitor, 9 per GPU instance.
func (Computed) Instance(minor, gi, ci int) ([]Node, error) {
	base := int64(3 + 135*minor + 9*gi)
	nodes := []Node{}
	for _, n := range []int64{base, base + 1 + int64(ci)} {
		nodes = append(nodes, Node{Path: fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", n), Major: capMajorComputed, Minor: n})
	}
	return nodes, nil
}

// Control is nothing: no container starts with hardware that exists in memory only.
func (Computed) Control() ([]Node, error) { return nil, nil }
