// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type entry struct {
	Type byte
	Name string
	Mode int64
	Link string
	Data string
}

func readTar(t *testing.T, data []byte) []entry {
	t.Helper()
	var entries []entry
	archive := tar.NewReader(bytes.NewReader(data))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return entries
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, entry{header.Typeflag, header.Name, header.Mode, header.Linkname, string(body)})
	}
}

// The archive is checked as a container runtime reads it: manifest first, digests recomputed from the bytes.
func TestArchive(t *testing.T) {
	img := Image{
		Name: "example.test/x:1",
		Files: []File{
			{Path: "/usr/bin/run", Mode: 0o755, Data: []byte("program")},
			{Path: "/etc/conf", Data: []byte("key=1")},
			{Path: "/etc/alias", Target: "conf"},
			{Path: "/usr/empty"},
		},
		Entrypoint: []string{"/usr/bin/run"},
		Env:        []string{"A=b"},
	}
	var buffer bytes.Buffer
	if err := img.WriteArchive(&buffer); err != nil {
		t.Fatal(err)
	}
	contents := map[string]string{}
	for _, e := range readTar(t, buffer.Bytes()) {
		contents[e.Name] = e.Data
	}
	var manifests []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal([]byte(contents["manifest.json"]), &manifests); err != nil || len(manifests) != 1 || len(manifests[0].Layers) != 1 {
		t.Fatalf("manifest %q: %v", contents["manifest.json"], err)
	}
	if diff := cmp.Diff([]string{"example.test/x:1"}, manifests[0].RepoTags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	config, layer := contents[manifests[0].Config], contents[manifests[0].Layers[0]]
	if want := fmt.Sprintf("%x.json", sha256.Sum256([]byte(config))); manifests[0].Config != want {
		t.Errorf("config is named %s, its digest says %s", manifests[0].Config, want)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(config), &got); err != nil {
		t.Fatal(err)
	}
	wantRun := map[string]any{"Entrypoint": []any{"/usr/bin/run"}, "Env": []any{"A=b"}}
	if diff := cmp.Diff(wantRun, got["config"]); diff != "" {
		t.Errorf("run config (-want +got):\n%s", diff)
	}
	wantRoot := map[string]any{"type": "layers", "diff_ids": []any{fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(layer)))}}
	if diff := cmp.Diff(wantRoot, got["rootfs"]); diff != "" {
		t.Errorf("rootfs (-want +got):\n%s", diff)
	}
	wantLayer := []entry{
		{tar.TypeDir, "etc/", 0o755, "", ""},
		{tar.TypeSymlink, "etc/alias", 0o777, "conf", ""},
		{tar.TypeReg, "etc/conf", 0o644, "", "key=1"},
		{tar.TypeDir, "usr/", 0o755, "", ""},
		{tar.TypeDir, "usr/bin/", 0o755, "", ""},
		{tar.TypeReg, "usr/bin/run", 0o755, "", "program"},
		{tar.TypeReg, "usr/empty", 0o644, "", ""},
	}
	if diff := cmp.Diff(wantLayer, readTar(t, []byte(layer))); diff != "" {
		t.Errorf("layer (-want +got):\n%s", diff)
	}
}

func TestArchiveRefusesBadPaths(t *testing.T) {
	tests := []struct {
		name, why string
		files     []File
	}{
		{"relative", "the root of the image is the only base", []File{{Path: "bin/x"}}},
		{"outside", "an entry must not leave the image", []File{{Path: "/bin/../../x"}}},
		{"root", "the root is no file", []File{{Path: "/"}}},
		{"twice", "the runtime would keep one of them silently", []File{{Path: "/x"}, {Path: "/x", Data: []byte("y")}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := (Image{Name: "x:1", Files: tt.files}).WriteArchive(io.Discard); err == nil {
				t.Errorf("accepted %v: %s", tt.files, tt.why)
			}
		})
	}
}

func TestArchiveIsDeterministic(t *testing.T) {
	img := busybox("x:1", []byte("program"), []File{{Path: "/a"}, {Path: "/z/b"}})
	var first, second bytes.Buffer
	if err := errors.Join(img.WriteArchive(&first), img.WriteArchive(&second)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two archives of one image differ")
	}
}
