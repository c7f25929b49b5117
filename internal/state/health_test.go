// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package state_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/internal/state"
	"gpuslice/pkg/health"
)

func sickness(uuid string) state.Health {
	return state.Health{UUID: uuid, BootID: "boot-1", State: health.State{Faults: []health.Fault{{Source: health.XID, XID: 48, GI: -1, CI: -1, Class: health.Reset, Count: 1}}}}
}

// P6: what is wrong with a GPU outlives boots, which are evidence and not its end; with nothing to be kept the file goes.
func TestHealthOutlivesBoots(t *testing.T) {
	dir := t.TempDir()
	s := store(t, dir, "boot-1")
	for _, h := range []state.Health{sickness("GPU-1"), sickness("GPU-0"), {UUID: "GPU-2", BootID: "boot-1"}} {
		if err := s.SaveHealth(h); err != nil {
			t.Fatal(err)
		}
	}
	got, bad, err := store(t, dir, "boot-2").Healths()
	if diff := cmp.Diff([]state.Health{sickness("GPU-0"), sickness("GPU-1")}, got); err != nil || len(bad) != 0 || diff != "" {
		t.Errorf("%v %v\n%s", err, bad, diff)
	}
	word := state.Health{UUID: "GPU-3", BootID: "boot-1", Overruled: state.Overruled{Action: health.ActionReset}}
	if err := s.SaveHealth(word); err != nil {
		t.Fatal(err)
	}
	if got, _, err := s.Healths(); err != nil || len(got) != 3 || got[2].Overruled != word.Overruled {
		t.Errorf("%v %v: what an admin spoke against is forgotten", got, err)
	}
	if err := s.SaveHealth(state.Health{UUID: "GPU-3", BootID: "boot-1"}); err != nil {
		t.Fatal(err)
	}
	if err := s.SaveHealth(state.Health{UUID: "GPU-1", BootID: "boot-1"}); err != nil {
		t.Fatal(err)
	}
	if got, _, err := s.Healths(); err != nil || len(got) != 1 {
		t.Errorf("%v %v, want GPU-0 alone", got, err)
	}
}

// P3: whatever lies in the place of a record costs that record alone, and is kept for inspection.
func TestBadHealthIsSetAsideAlone(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "no JSON": "{", "another class": `{"version":1,"health":{"uuid":"GPU-0","state":{"faults":[{"class":"x"}]}}}`,
		"of later": `{"version":2,"health":{"uuid":"GPU-0"}}`, "of none": `{"health":{"uuid":"GPU-0"}}`, "of another": `{"version":1,"health":{"uuid":"GPU-9"}}`,
	} {
		dir := t.TempDir()
		s := store(t, dir, "b")
		if err := s.SaveHealth(sickness("GPU-1")); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "health", "GPU-0.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, bad, err := s.Healths()
		if err != nil || len(got) != 1 || got[0].UUID != "GPU-1" || len(bad) != 1 || bad[0].UID != "GPU-0" || !strings.Contains(bad[0].Error(), path) {
			t.Errorf("%s: %v, bad %v, %v", name, got, bad, err)
		}
		if kept, err := os.ReadFile(path + ".bad"); err != nil || string(kept) != text {
			t.Errorf("%s: not kept: %q %v", name, kept, err)
		}
		if _, bad, err := s.Healths(); err != nil || len(bad) != 0 {
			t.Errorf("%s: named again: %v %v", name, bad, err)
		}
	}
	for _, uuid := range []string{"", "../x", ".x", "a/b", "a\x00"} {
		if err := store(t, t.TempDir(), "b").SaveHealth(sickness(uuid)); err == nil {
			t.Errorf("%q became a file", uuid)
		}
	}
}
