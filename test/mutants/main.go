// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Command mutants checks that tests can fail: every patch in this directory puts one fault into the product, and the test
// that it names must go red. A patch that no longer applies, or whose test stays green, is an error.
//
// A patch begins with lines "# test: PACKAGE TEST" and "# promise: P2", then a sentence, then the diff. It is applied to a
// copy that the compiler sees in place of the file, so the tree is never touched.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// mutant is one patch.
type mutant struct {
	path    string
	pkg     string
	test    string
	promise string
	file    string // the file it changes
}

func main() {
	only := flag.String("only", "", "run the patches whose name contains this")
	flag.Parse()
	if err := run(context.Background(), *only); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string) error {
	paths, err := filepath.Glob("test/mutants/*.patch")
	if err != nil {
		return err
	}
	errs, killed, promises := []error{}, 0, []string{}
	for _, path := range paths {
		if !strings.Contains(path, only) {
			continue
		}
		started := time.Now()
		m, err := read(path)
		if err == nil {
			err = m.kill(ctx)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", path, err))
			fmt.Printf("SURVIVED %s: %v\n", filepath.Base(path), err)
			continue
		}
		killed++
		promises = append(promises, m.promise)
		fmt.Printf("killed   %s by %s in %v\n", filepath.Base(path), m.test, time.Since(started).Round(100*time.Millisecond))
	}
	slices.Sort(promises)
	fmt.Printf("%d mutants killed, %d survived; promises %s\n", killed, len(errs), strings.Join(slices.Compact(promises), " "))
	if killed == 0 && len(errs) == 0 {
		return errors.New("no mutants")
	}
	return errors.Join(errs...)
}

var (
	testLine    = regexp.MustCompile(`(?m)^# test: (\S+) (\S+)$`)
	promiseLine = regexp.MustCompile(`(?m)^# promise: (P[0-9]+)$`)
	fileLine    = regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)$`)
)

func read(path string) (mutant, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return mutant{}, err
	}
	test, promise, files := testLine.FindSubmatch(text), promiseLine.FindSubmatch(text), fileLine.FindAllSubmatch(text, -1)
	if test == nil || promise == nil || len(files) != 1 {
		return mutant{}, errors.New("want a line `# test: PACKAGE TEST`, a line `# promise: P2`, and a diff of one file")
	}
	return mutant{path: path, pkg: string(test[1]), test: string(test[2]), promise: string(promise[1]), file: string(files[0][1])}, nil
}

// kill returns nil when the test goes red for the fault, and not because the fault does not compile.
func (m mutant) kill(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	overlay, err := m.overlay(ctx, dir)
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "go", "test", "-overlay", overlay, "-failfast", "-timeout", "120s", "-run", "^"+m.test+"$", m.pkg).CombinedOutput()
	text := string(out)
	switch {
	case strings.Contains(text, "[build failed]") || strings.Contains(text, "[setup failed]"):
		return fmt.Errorf("the fault does not compile:\n%s", text)
	case strings.Contains(text, "no tests to run"):
		return fmt.Errorf("%s has no test %s", m.pkg, m.test)
	case err == nil:
		return fmt.Errorf("%s stays green", m.test)
	}
	return nil
}

// overlay applies the patch to a copy and writes the compiler's map from the file to its copy.
func (m mutant) overlay(ctx context.Context, dir string) (string, error) {
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	replaced := filepath.Join(dir, m.file)
	if err := errors.Join(os.MkdirAll(filepath.Dir(replaced), 0o755), os.WriteFile(replaced, text, 0o600)); err != nil {
		return "", err
	}
	patch, err := filepath.Abs(m.path)
	if err != nil {
		return "", err
	}
	apply := exec.CommandContext(ctx, "patch", "--quiet", "--forward", "--fuzz=1", "-p1", "-i", patch)
	apply.Dir = dir
	if out, err := apply.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the patch does not apply: %w: %s", err, out)
	}
	spec, err := json.Marshal(map[string]any{"Replace": map[string]string{original: replaced}})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, spec, 0o600)
}
