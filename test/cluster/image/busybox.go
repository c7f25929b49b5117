// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package image

import (
	"fmt"
	"os"
	"slices"
)

const (
	// BusyboxName is the workload image that every cluster has.
	BusyboxName = "gpuslice.test/busybox:1"
	// PauseName is the image that keeps the namespaces of a pod open.
	PauseName = "gpuslice.test/pause:1"

	busyboxPath = "/bin/busybox"
)

// applets are the commands that test pods call by name; the rest is reached as "busybox COMMAND".
var applets = []string{
	"[", "awk", "basename", "cat", "chmod", "cp", "cut", "date", "dd", "df", "dirname", "echo", "env", "expr", "false", "find", "free",
	"grep", "head", "hostname", "id", "ip", "kill", "ln", "ls", "mkdir", "mknod", "mount", "mv", "nc", "od", "printf", "ps", "pwd",
	"readlink", "rm", "sed", "seq", "sh", "sleep", "sort", "stat", "sync", "tail", "tar", "test", "touch", "tr", "true", "umount",
	"uname", "uniq", "vi", "wc", "wget", "which", "xargs",
}

// Busybox is an image with a static busybox, a shell and the extra files. It runs until it is killed.
func Busybox(name string, extra ...File) (Image, error) {
	program, err := os.ReadFile(busyboxPath)
	if err != nil {
		return Image{}, fmt.Errorf("read busybox (package busybox-static): %w", err)
	}
	return busybox(name, program, extra), nil
}

// Pause is the sandbox image. It needs no program of its own: sleeping is all it does.
func Pause() (Image, error) {
	program, err := os.ReadFile(busyboxPath)
	if err != nil {
		return Image{}, fmt.Errorf("read busybox (package busybox-static): %w", err)
	}
	return Image{
		Name:       PauseName,
		Files:      []File{{Path: busyboxPath, Mode: 0o755, Data: program}},
		Entrypoint: []string{busyboxPath, "sleep", "2147483647"},
	}, nil
}

func busybox(name string, program []byte, extra []File) Image {
	files := []File{{Path: busyboxPath, Mode: 0o755, Data: program}}
	for _, applet := range applets {
		files = append(files, File{Path: "/bin/" + applet, Target: "busybox"})
	}
	return Image{
		Name:  name,
		Files: slices.Concat(files, extra),
		Env:   []string{"PATH=/bin:/usr/bin"},
		Cmd:   []string{"/bin/sh", "-c", "trap 'exit 0' TERM; sleep 2147483647 & wait"},
	}
}
