// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package state_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/internal/state"
)

func store(t *testing.T, dir, boot string) *state.Store {
	t.Helper()
	s, err := state.Open(dir, boot)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func claim(uid string) state.Claim {
	return state.Claim{UID: uid, Namespace: "ns", Name: uid, Devices: []state.Device{{Name: "gpu-0", GPU: "GPU-1", ProfileID: -1}}}
}

func TestClaimsSurviveAndBootsEndThem(t *testing.T) {
	dir := t.TempDir()
	s := store(t, dir, "boot-1")
	for _, uid := range []string{"b", "a"} {
		if err := s.SaveClaim(claim(uid)); err != nil {
			t.Fatal(err)
		}
	}
	got, bad, err := store(t, dir, "boot-1").Claims()
	if diff := cmp.Diff([]state.Claim{claim("a"), claim("b")}, got); err != nil || len(bad) != 0 || diff != "" {
		t.Errorf("%v %v\n%s", err, bad, diff)
	}
	if err := errors.Join(s.DeleteClaim("a"), s.DeleteClaim("a"), s.DeleteClaim("never")); err != nil {
		t.Errorf("delete, also of what is not there: %v", err)
	}
	got, _, err = store(t, dir, "boot-2").Claims()
	if err != nil || len(got) != 0 {
		t.Errorf("after a boot: %v, %v; nothing of what they held is left", got, err)
	}
	got, _, err = store(t, dir, "boot-1").Claims()
	if err != nil || len(got) != 0 {
		t.Errorf("claims of an earlier boot are gone for good, got %v, %v", got, err)
	}
}

// P3: a bad file costs itself only and is kept for inspection; what a crash leaves of a write is cleaned up.
func TestBadFileIsSetAsideAlone(t *testing.T) {
	dir := t.TempDir()
	s := store(t, dir, "b")
	if err := s.SaveClaim(claim("good")); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"half.json": `{"version":1,"cl`, "other.json": `{"version":1,"bootId":"b","claim":{"uid":"x"}}`, ".z.json.tmp-1": "", "future.json": `{"version":9,"bootId":"b","claim":{"uid":"future"}}`} {
		if err := os.WriteFile(filepath.Join(dir, "claims", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, bad, err := s.Claims()
	if err != nil || len(got) != 1 || got[0].UID != "good" || len(bad) != 3 {
		t.Errorf("read %v, bad %v, %v", got, bad, err)
	}
	left, err := os.ReadDir(filepath.Join(dir, "claims"))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range left {
		names = append(names, e.Name())
	}
	if diff := cmp.Diff([]string{"future.json", "good.json", "half.json.bad", "other.json.bad"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestUIDsAreFileNames(t *testing.T) {
	s := store(t, t.TempDir(), "b")
	for _, uid := range []string{"", "../x", "a/b", ".hidden", "a\x00b"} {
		if err := s.SaveClaim(claim(uid)); err == nil {
			t.Errorf("UID %q was taken as a file name", uid)
		}
	}
}

func TestConfigAndLabelsAreKept(t *testing.T) {
	dir := t.TempDir()
	s := store(t, dir, "b")
	if text, err := s.Config(); text != nil || err != nil {
		t.Errorf("no config yet: %q, %v", text, err)
	}
	if labels, known, err := s.Labels(); known || err != nil {
		t.Errorf("no labels yet: %v, %v", labels, err)
	}
	if err := errors.Join(s.SaveConfig([]byte("a")), s.SaveConfig([]byte("b")), s.SaveLabels(map[string]string{"k": "v"})); err != nil {
		t.Fatal(err)
	}
	s = store(t, dir, "another boot")
	text, err := s.Config()
	labels, known, labelsErr := s.Labels()
	if string(text) != "b" || !known || labels["k"] != "v" || errors.Join(err, labelsErr) != nil {
		t.Errorf("%q %v %v %v", text, labels, err, labelsErr)
	}
}

func TestOneOwner(t *testing.T) {
	dir := t.TempDir()
	first, err := state.Acquire(dir, "agent pid 1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := state.Acquire(dir, "agent pid 2"); !errors.Is(err, state.ErrLocked) || !strings.Contains(err.Error(), "agent pid 1") {
		t.Errorf("second: %v, want the holder's name", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := state.Acquire(dir, "agent pid 2"); err != nil {
		t.Errorf("after the first is gone: %v", err)
	}
}

// The last good config in another format is kept under its name, and forgotten when nobody names it any more.
func TestImportsAreKept(t *testing.T) {
	dir := t.TempDir()
	s := store(t, dir, "b")
	if text, err := s.Import("mig-parted-config"); text != nil || err != nil {
		t.Errorf("nothing yet: %q, %v", text, err)
	}
	if err := errors.Join(s.SaveImport("mig-parted-config", []byte("a")), s.SaveImport("mig-parted-config", []byte("b")), s.SaveImport("other", []byte("c"))); err != nil {
		t.Fatal(err)
	}
	s = store(t, dir, "another boot")
	if text, err := s.Import("mig-parted-config"); string(text) != "b" || err != nil {
		t.Errorf("after a restart: %q, %v", text, err)
	}
	if err := errors.Join(s.SaveImport("mig-parted-config", nil), s.SaveImport("mig-parted-config", nil)); err != nil {
		t.Errorf("forgotten twice: %v", err)
	}
	if text, err := s.Import("mig-parted-config"); text != nil || err != nil {
		t.Errorf("forgotten: %q, %v", text, err)
	}
}

// Events go by their text: what is wrong is said in the same words with every try.
func TestWriteErrorsAreTheSameEachTime(t *testing.T) {
	dir := t.TempDir()
	s := store(t, dir, "b")
	if err := os.Mkdir(filepath.Join(dir, "config.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	first, second := s.SaveConfig([]byte("a")), s.SaveConfig([]byte("a"))
	if first == nil || second == nil || first.Error() != second.Error() || strings.Contains(first.Error(), "tmp-") {
		t.Errorf("first: %v\nsecond: %v", first, second)
	}
}

// P6: limits are those of the boot in which their cgroups were made; a file that is not readable harms no other, and what a crash
// left of a write goes.
func TestLimitsAreKept(t *testing.T) {
	dir := t.TempDir()
	s := store(t, dir, "boot-1")
	all := []state.Limit{
		{Container: "a1", GPU: "GPU-1", Cgroup: "/c/a1", Hard: 1 << 34},
		{Container: "a1", GPU: "GPU-2", Cgroup: "/c/a1", Hard: 1 << 33},
		{Container: "b2", GPU: "GPU-1", Cgroup: "/c/b2", Hard: 1 << 34},
	}
	for _, l := range all {
		if err := s.SaveLimit(l); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"bad.json": "{", ".b2+GPU-1.json.tmp-1": "half"} {
		if err := os.WriteFile(filepath.Join(dir, "limits", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	next := store(t, dir, "boot-1")
	if err := next.Clean(); err != nil {
		t.Error(err)
	}
	got, err := next.Limits()
	if diff := cmp.Diff(all, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if err := errors.Join(next.DeleteLimit(all[1]), next.DeleteLimit(all[1])); err != nil {
		t.Error(err)
	}
	if got, err := next.Limits(); err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := store(t, dir, "boot-2").Limits(); err != nil || len(got) > 0 {
		t.Errorf("after a reboot: %v, %v", got, err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "limits")); err != nil || len(left) > 0 {
		t.Errorf("left on disk: %v, %v", left, err)
	}
	for _, bad := range []state.Limit{{Container: "../a", GPU: "GPU-1"}, {Container: "a", GPU: ""}, {Container: ".a", GPU: "GPU-1"}} {
		if s.SaveLimit(bad) == nil || s.DeleteLimit(bad) == nil {
			t.Errorf("%+v has a file", bad)
		}
	}
}
