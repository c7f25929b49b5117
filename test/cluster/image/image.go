// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package image builds small container images of the test cluster as docker-archive tars, without a container runtime.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"runtime"
	"slices"
	"strings"
)

// File is one entry of the image's file system. Parent folders come by themselves.
type File struct {
	// Path is absolute inside the image.
	Path string
	// Mode are the permission bits; zero means 0644.
	Mode int64
	Data []byte
	// Target makes the entry a symbolic link to it.
	Target string
}

// Image is what a container starts from: one layer and how to run it.
type Image struct {
	// Name with tag, such as gpuslice.test/busybox:1.
	Name       string
	Files      []File
	Entrypoint []string
	Cmd        []string
	Env        []string
}

type manifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

type ociConfig struct {
	Architecture string       `json:"architecture"`
	OS           string       `json:"os"`
	Config       runConfig    `json:"config"`
	RootFS       rootFSConfig `json:"rootfs"`
}

type runConfig struct {
	Entrypoint []string `json:",omitempty"`
	Cmd        []string `json:",omitempty"`
	Env        []string `json:",omitempty"`
}

type rootFSConfig struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// WriteArchive writes the image as a docker-archive. Equal images give equal bytes.
func (i Image) WriteArchive(w io.Writer) error {
	layer, err := i.layer()
	if err != nil {
		return fmt.Errorf("build image %s: %w", i.Name, err)
	}
	digest := digestOf(layer)
	config, err := json.Marshal(ociConfig{
		Architecture: runtime.GOARCH,
		OS:           "linux",
		Config:       runConfig{Entrypoint: i.Entrypoint, Cmd: i.Cmd, Env: i.Env},
		RootFS:       rootFSConfig{Type: "layers", DiffIDs: []string{"sha256:" + digest}},
	})
	if err != nil {
		return fmt.Errorf("encode the config of image %s: %w", i.Name, err)
	}
	configName, layerName := digestOf(config)+".json", digest+"/layer.tar"
	manifests, err := json.Marshal([]manifest{{Config: configName, RepoTags: []string{i.Name}, Layers: []string{layerName}}})
	if err != nil {
		return fmt.Errorf("encode the manifest of image %s: %w", i.Name, err)
	}
	archive := tar.NewWriter(w)
	for _, file := range []File{{Path: "manifest.json", Data: manifests}, {Path: configName, Data: config}, {Path: layerName, Data: layer}} {
		if err := writeFile(archive, file); err != nil {
			return fmt.Errorf("write image %s: %w", i.Name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("write image %s: %w", i.Name, err)
	}
	return nil
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (i Image) layer() ([]byte, error) {
	files := slices.Clone(i.Files)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	var buffer bytes.Buffer
	archive := tar.NewWriter(&buffer)
	folders := map[string]bool{".": true}
	for index, file := range files {
		if !path.IsAbs(file.Path) || path.Clean(file.Path) != file.Path || file.Path == "/" {
			return nil, fmt.Errorf("file %q: the path must be absolute and clean", file.Path)
		}
		if index > 0 && files[index-1].Path == file.Path {
			return nil, fmt.Errorf("file %q occurs twice", file.Path)
		}
		file.Path = file.Path[1:]
		if err := writeFolders(archive, path.Dir(file.Path), folders); err != nil {
			return nil, err
		}
		if err := writeFile(archive, file); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("close the layer: %w", err)
	}
	return buffer.Bytes(), nil
}

func writeFolders(archive *tar.Writer, folder string, written map[string]bool) error {
	if written[folder] {
		return nil
	}
	if err := writeFolders(archive, path.Dir(folder), written); err != nil {
		return err
	}
	written[folder] = true
	if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755}); err != nil {
		return fmt.Errorf("write folder %s: %w", folder, err)
	}
	return nil
}

func writeFile(archive *tar.Writer, file File) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: file.Path, Mode: file.Mode, Size: int64(len(file.Data))}
	if header.Mode == 0 {
		header.Mode = 0o644
	}
	if file.Target != "" {
		header.Typeflag, header.Linkname, header.Mode, header.Size = tar.TypeSymlink, file.Target, 0o777, 0
	}
	if err := archive.WriteHeader(header); err != nil {
		return fmt.Errorf("write %s: %w", file.Path, err)
	}
	if header.Size == 0 {
		return nil
	}
	if _, err := archive.Write(file.Data); err != nil {
		return fmt.Errorf("write %s: %w", file.Path, err)
	}
	return nil
}
