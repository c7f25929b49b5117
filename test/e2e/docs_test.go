// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build e2e

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// block is a fenced block of a document.
type block struct {
	line     int
	language string
	noRun    string // why it cannot be run
	text     string
}

const fence = "```"

// blocksOf finds the fenced blocks of a document. A block of commands that cannot be run says so after its language:
// sh no-run: reason.
func blocksOf(document string) []block {
	var all []block
	var open *block
	number, indent := 0, ""
	for line := range strings.Lines(document) {
		number++
		trimmed := strings.TrimLeft(line, " ")
		info, isFence := strings.CutPrefix(strings.TrimSpace(trimmed), fence)
		switch {
		case open == nil && isFence:
			language, rest, _ := strings.Cut(info, " ")
			reason, _ := strings.CutPrefix(rest, "no-run: ")
			open, indent = &block{line: number, language: language, noRun: reason}, strings.TrimSuffix(line, trimmed)
		case open != nil && isFence:
			all, open = append(all, *open), nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) // a block in a list is indented as a whole
		}
	}
	return all
}

// script runs the blocks of one document in order, as a reader would, and says where it is.
func script(name string, blocks []block) (text string, run, skipped int) {
	var b strings.Builder
	b.WriteString("set -euo pipefail\n")
	for _, x := range blocks {
		switch {
		case x.language != "sh":
		case x.noRun != "":
			skipped++
		default:
			run++
			fmt.Fprintf(&b, "echo '== %s:%d'\n%s", name, x.line, x.text)
		}
	}
	return b.String(), run, skipped
}

// Every block of commands in the documents runs, in order, on a node with the agent on it; every fenced block says what it is.
func TestDocs(t *testing.T) {
	root := os.Getenv("GPUSLICE_ROOT")
	s := begin(t, "2xh100-sxm5-80gb,1xa100-sxm4-40gb", config+"nodes: [{gpus: [{layout: whole}]}]\n")
	s.offers(map[string]int64{"nvidia.com/gpu": 3})
	documents, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	s.must(err)
	total, left := 0, 0
	for _, path := range append([]string{filepath.Join(root, "README.md")}, documents...) {
		name, err := filepath.Rel(root, path)
		s.must(err)
		content, err := os.ReadFile(path)
		s.must(err)
		blocks := blocksOf(string(content))
		for _, x := range blocks {
			if x.language == "" {
				t.Errorf("%s:%d: a fenced block without a language", name, x.line)
			}
		}
		text, run, skipped := script(name, blocks)
		total, left = total+run, left+skipped
		if run == 0 {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-c", text)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"), "NODE=127.0.0.1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	t.Logf("%d blocks run, %d marked no-run", total, left)
	if total == 0 {
		t.Error("no block was run; the documents have lost their commands")
	}
}
