// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Command cases checks that every case and promise in cases.tsv has a test that passes at its tier.
//
// Tests of the tiers unit and sim are run here; those of the tiers kubelet, api, cri and chart need a cluster and are looked
// up in the log that `make e2e` leaves behind. A row whose test is missing, skipped or in a package of a lower tier fails.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// row is one line of cases.tsv.
type row struct {
	line    int
	id      string // K01, P2, ...
	tier    string
	pkg     string // ./internal/agent
	test    string
	subject string
}

// tiers from the lowest to the highest; a test of a higher tier serves a lower one.
var tiers = []string{"unit", "sim", "kubelet", "api", "cri", "chart"}

// clusterPackages run on a real node and reach every tier but chart.
var clusterPackages = []string{"./test/e2e"}

const e2eLog = ".out/e2e.log"

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	text, err := os.ReadFile("test/cases/cases.tsv")
	if err != nil {
		return err
	}
	rows, err := parse(text)
	if err != nil {
		return err
	}
	results := map[string]string{} // package and test -> pass, fail, skip
	if err := runTests(ctx, rows, results); err != nil {
		return err
	}
	if err := readLog(results); err != nil {
		return err
	}
	errs := []error{}
	for _, r := range rows {
		switch result := results[r.pkg+" "+r.test]; result {
		case "pass":
		case "":
			errs = append(errs, fmt.Errorf("cases.tsv:%d: %s: %s has no test %s that ran", r.line, r.id, r.pkg, r.test))
		default:
			errs = append(errs, fmt.Errorf("cases.tsv:%d: %s: %s %s: %s", r.line, r.id, r.pkg, r.test, result))
		}
	}
	ids := map[string]bool{}
	for _, r := range rows {
		ids[r.id] = true
	}
	fmt.Printf("%d rows, %d cases and promises, %d without a passing test\n", len(rows), len(ids), len(errs))
	return errors.Join(errs...)
}

func parse(text []byte) ([]row, error) {
	rows := []row{}
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 5 {
			return nil, fmt.Errorf("cases.tsv:%d: %d fields, want id, tier, package, test, subject", i+1, len(f))
		}
		r := row{line: i + 1, id: f[0], tier: f[1], pkg: f[2], test: f[3], subject: f[4]}
		if !slices.Contains(tiers, r.tier) {
			return nil, fmt.Errorf("cases.tsv:%d: tier %q is not one of %s", r.line, r.tier, strings.Join(tiers, ", "))
		}
		if onCluster := slices.Contains(clusterPackages, r.pkg); !onCluster && slices.Index(tiers, r.tier) > slices.Index(tiers, "sim") {
			return nil, fmt.Errorf("cases.tsv:%d: %s asks for tier %s, %s runs below it", r.line, r.id, r.tier, r.pkg)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// runTests runs the tests of each package that needs no cluster, all of a package at once.
func runTests(ctx context.Context, rows []row, results map[string]string) error {
	byPackage := map[string][]string{}
	for _, r := range rows {
		if !slices.Contains(clusterPackages, r.pkg) {
			top, _, _ := strings.Cut(r.test, "/")
			byPackage[r.pkg] = append(byPackage[r.pkg], regexp.QuoteMeta(top))
		}
	}
	for pkg, tests := range byPackage {
		slices.Sort(tests)
		pattern := "^(" + strings.Join(slices.Compact(tests), "|") + ")$"
		out, err := exec.CommandContext(ctx, "go", "test", "-json", "-run", pattern, pkg).Output()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			return fmt.Errorf("test %s: %w", pkg, err)
		}
		if err := readEvents(pkg, out, results); err != nil {
			return err
		}
	}
	return nil
}

func readEvents(pkg string, out []byte, results map[string]string) error {
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var event struct{ Action, Test string }
		if err := d.Decode(&event); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read results of %s: %w", pkg, err)
		}
		if event.Test != "" && slices.Contains([]string{"pass", "fail", "skip"}, event.Action) {
			results[pkg+" "+event.Test] = event.Action
		}
	}
}

var resultLine = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+)`)

// readLog takes the results of the cluster's tests from their log; without a log they have not run.
func readLog(results map[string]string) error {
	f, err := os.Open(e2eLog)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if m := resultLine.FindStringSubmatch(lines.Text()); m != nil {
			key := clusterPackages[0] + " " + m[2]
			results[key] = cmp.Or(map[string]string{"PASS": "pass", "FAIL": "fail", "SKIP": "skip"}[m[1]], "fail")
		}
	}
	return lines.Err()
}
