// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package library

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpuslice/test/cluster/image"
)

// ListInImage is where ImageFiles puts the program that lists what NVML shows.
const ListInImage = "/bin/gpu-list"

// systemFolders are where the loader looks without being told.
var systemFolders = []string{
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64",
}

// ImageFiles is what an image needs besides a shell so that the driver's library, once it is mounted, can be loaded and asked:
// the listing program, the loader, and the C library with what that needs.
func (a Artifacts) ImageFiles() ([]image.File, error) {
	list, err := fileFrom(ListInImage, a.List())
	if err != nil {
		return nil, err
	}
	files := []image.File{list}
	loader, err := interpreter(a.List())
	if err != nil {
		return nil, err
	}
	wanted := []string{loader}
	for _, program := range []string{a.List(), a.NVML(New)} {
		found, err := needed(program, nil)
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, found...)
	}
	slices.Sort(wanted)
	for _, path := range slices.Compact(wanted) {
		f, err := fileFrom(path, path)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

func fileFrom(path, source string) (image.File, error) {
	data, err := os.ReadFile(source)
	if err != nil {
		return image.File{}, fmt.Errorf("collect files of an image: %w", err)
	}
	return image.File{Path: path, Mode: 0o755, Data: data}, nil
}

// interpreter is the loader that a program asks for.
func interpreter(program string) (string, error) {
	f, err := elf.Open(program)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", program, err)
	}
	defer f.Close()
	section := f.Section(".interp")
	if section == nil {
		return "", fmt.Errorf("%s needs no loader", program)
	}
	data, err := section.Data()
	if err != nil {
		return "", fmt.Errorf("read loader of %s: %w", program, err)
	}
	return strings.TrimRight(string(data), "\x00"), nil
}

// needed are the libraries that a file needs, and those that they need, besides the ones known.
func needed(file string, known []string) ([]string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	defer f.Close()
	names, err := f.ImportedLibraries()
	if err != nil {
		return nil, fmt.Errorf("read libraries of %s: %w", file, err)
	}
	for _, name := range names {
		path, err := locate(name)
		if err != nil {
			return nil, err
		}
		if slices.Contains(known, path) {
			continue
		}
		if known, err = needed(path, append(known, path)); err != nil {
			return nil, err
		}
	}
	return known, nil
}

func locate(name string) (string, error) {
	for _, folder := range systemFolders {
		path := filepath.Join(folder, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("locate %s: %w", name, err)
		}
	}
	return "", fmt.Errorf("locate %s: it is in none of %s", name, strings.Join(systemFolders, ", "))
}
