// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package killer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call is a system call at whose begin or end a thread stands.
type call struct {
	entry bool
	nr    uint64
	args  [6]uint64
}

// info is the kernel's struct ptrace_syscall_info, as far as it is the same for begin and end.
type info struct {
	op   uint8
	_    [3]uint8
	_    uint32    // architecture
	_    [2]uint64 // instruction and stack pointer
	nr   uint64
	args [6]uint64
}

// getSyscallInfo and opEntry are PTRACE_GET_SYSCALL_INFO and PTRACE_SYSCALL_INFO_ENTRY of linux/ptrace.h.
const (
	getSyscallInfo = 0x420e
	opEntry        = 1
)

func read(tid int) (call, error) {
	var i info
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, getSyscallInfo, uintptr(tid), unsafe.Sizeof(i), uintptr(unsafe.Pointer(&i)), 0, 0)
	if errno != 0 {
		return call{}, fmt.Errorf("read system call of thread %d: %w", tid, errno)
	}
	return call{entry: i.op == opEntry, nr: i.nr, args: i.args}, nil
}

// effect names what the call is about to change; the path is "" for calls that change nothing of interest.
func (c call) effect(tid int) (what, path string) {
	switch c.nr {
	case unix.SYS_FSYNC:
		return "fsync", descriptor(tid, c.args[0])
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		return "rename to", at(tid, c.args[2], c.args[3])
	case unix.SYS_UNLINKAT:
		path = at(tid, c.args[0], c.args[1])
		if _, err := os.Lstat(path); err != nil {
			return "", "" // nothing to remove
		}
		return "unlink", path
	case unix.SYS_BIND:
		address := memory(tid, c.args[1], min(c.args[2], unix.SizeofSockaddrUnix))
		if len(address) < 3 || binary.NativeEndian.Uint16(address) != unix.AF_UNIX {
			return "", ""
		}
		return "bind", text(address[2:])
	case unix.SYS_WRITE:
		if port := peerPort(tid, descriptor(tid, c.args[0])); port != 0 {
			return "write to", Connections(port)
		}
	}
	return "", ""
}

// peerPort is the port at the other end of a thread's TCP connection, by the name that the kernel gives its descriptor; 0 for
// anything else.
func peerPort(tid int, name string) int {
	inode, isSocket := strings.CutPrefix(name, "socket:[")
	if !isSocket {
		return 0
	}
	inode = strings.TrimSuffix(inode, "]")
	for _, table := range []string{"tcp", "tcp6"} {
		lines, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", tid, table))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(lines)) {
			fields := strings.Fields(line)
			if len(fields) < 10 || fields[9] != inode {
				continue
			}
			_, hex, _ := strings.Cut(fields[2], ":")
			if port, err := strconv.ParseUint(hex, 16, 16); err == nil {
				return int(port)
			}
		}
	}
	return 0
}

// at resolves a path beside a folder's descriptor.
func at(tid int, folder, address uint64) string {
	path := text(memory(tid, address, unix.PathMax))
	if filepath.IsAbs(path) || int32(folder) == unix.AT_FDCWD {
		return path
	}
	return filepath.Join(descriptor(tid, folder), path)
}

func descriptor(tid int, fd uint64) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tid, int32(fd)))
	if err != nil {
		return ""
	}
	return path
}

// memory reads up to n bytes; fewer at the end of a mapping.
func memory(tid int, address, n uint64) []byte {
	file, err := os.Open(fmt.Sprintf("/proc/%d/mem", tid))
	if err != nil {
		return nil
	}
	defer file.Close()
	buffer := make([]byte, n)
	got, _ := file.ReadAt(buffer, int64(address)) // short at the end of a mapping
	return buffer[:max(got, 0)]
}

func text(raw []byte) string {
	before, _, _ := bytes.Cut(raw, []byte{0})
	return string(before)
}
