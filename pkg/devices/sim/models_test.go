// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim/internal/generate"
)

func TestGeneratedTablesAreCurrent(t *testing.T) {
	tables, err := os.ReadFile("mig-profiles.json")
	if err != nil {
		t.Fatal(err)
	}
	files, err := generate.Files(tables)
	if err != nil {
		t.Fatal(err)
	}
	present, err := filepath.Glob("*_gen.go")
	if err != nil {
		t.Fatal(err)
	}
	if len(present) != len(files) {
		t.Errorf("files are %v, the generator writes %d", present, len(files))
	}
	for name, want := range files {
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is stale, run go generate (-want +got):\n%s", name, diff)
		}
	}
}

func TestGeneratorRefusesWhatItCannotRead(t *testing.T) {
	for _, tables := range []string{
		``, `{}`, `{"models":[{"key":"x","architecture":"volta"}]}`,
		`{"models":[{"key":"x","architecture":"hopper","memory_total_mib":1024,"rows":[{"name":"1g"}]}]}`,
		`{"models":[{"key":"x","architecture":"hopper","memory_total_mib":1024,"rows":[{"name":"1g.5gb"}]}]}`,
	} {
		if _, err := generate.Files([]byte(tables)); err == nil {
			t.Errorf("tables %q are accepted", tables)
		}
	}
}

// The formula of the profile names, from the memory of GPU and instance: a share rounded up to eighths of the GPU's GiB.
func TestNamesFollowFromMemory(t *testing.T) {
	rows := 0
	for key, m := range builtin {
		whole := math.Ceil(float64(m.memoryMiB) / 1024)
		for _, r := range m.rows {
			rows++
			share := math.Ceil(float64(r.MemoryMiB)/float64(m.memoryMiB)*8) / 8
			want := fmt.Sprintf("%dg.%dgb", r.Slices, int(math.Round(share*whole)))
			if base := r.Name[:strings.Index(r.Name, "gb")+2]; base != want {
				t.Errorf("%s: %s of %d MiB on %d MiB would be called %s", key, r.Name, r.MemoryMiB, m.memoryMiB, want)
			}
		}
	}
	if rows != 100 {
		t.Errorf("%d profiles, want 100", rows)
	}
}

// Columns of nvidia-smi mig -lgip, as printed in public transcripts of these products.
func TestProfilesAreThoseOfTheProducts(t *testing.T) {
	products := map[string]string{
		// name, id, instances, GiB, SM, DEC, ENC, CE, JPEG, OFA
		"a30-24gb": `
1g.6gb      14  4   5.81  14  1 0  1 0 0
1g.6gb+me   21  1   5.81  14  1 0  1 1 1
2g.12gb      5  2  11.69  28  2 0  2 0 0
2g.12gb+me   6  1  11.69  28  2 0  2 1 1
4g.24gb      0  1  23.44  56  4 0  4 1 1`,
		"a100-sxm4-40gb": `
1g.5gb      19  7   4.75  14  0 0  1 0 0
1g.5gb+me   20  1   4.75  14  1 0  1 1 1
1g.10gb     15  4   9.62  14  1 0  1 0 0
2g.10gb     14  3   9.62  28  1 0  2 0 0
3g.20gb      9  2  19.50  42  2 0  3 0 0
4g.20gb      5  1  19.50  56  2 0  4 0 0
7g.40gb      0  1  39.25  98  5 0  7 1 1`,
		"h100-sxm5-80gb": `
1g.10gb     19  7   9.75  16  1 0  1 1 0
1g.10gb+me  20  1   9.75  16  1 0  1 1 1
1g.20gb     15  4  19.62  26  1 0  1 1 0
2g.20gb     14  3  19.62  32  2 0  2 2 0
3g.40gb      9  2  39.50  60  3 0  3 3 0
4g.40gb      5  1  39.50  64  4 0  4 4 0
7g.80gb      0  1  79.25 132  7 0  8 7 1`,
	}
	for model, table := range products {
		t.Run(model, func(t *testing.T) {
			f := open(t, machine(t, "1x"+model), Admin("test"))
			gpu := f.at(0)
			var got []string
			for enum := range devices.GIProfileEnums {
				p, err := f.GIProfile(gpu, enum)
				if err != nil {
					continue
				}
				got = append(got, fmt.Sprintf("%s %d %d %.2f %d %d %d %d %d %d", p.Name, p.ID, p.MaxInstances,
					float64(p.MemoryMiB)/1024, p.SMs, p.Decoders, p.Encoders, p.CopyEngines, p.JPEGs, p.OFAs))
			}
			var want []string
			for line := range strings.Lines(strings.TrimSpace(table)) {
				want = append(want, strings.Join(strings.Fields(line), " "))
			}
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("profiles (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryModelMakesAMachine(t *testing.T) {
	for _, key := range Models() {
		f := open(t, machine(t, "1x"+key), Admin("test"))
		gpu := f.at(0)
		switch total, err := f.Memory(gpu); {
		case builtin[key].noMemory && !errors.Is(err, devices.ErrNotSupported):
			t.Errorf("%s has no memory of its own: memory %d, %v", key, total, err)
		case !builtin[key].noMemory && (err != nil || total == 0):
			t.Errorf("%s: memory %d, %v", key, total, err)
		}
		if brand, err := f.Brand(gpu); err != nil || brand == 0 {
			t.Errorf("%s: brand %d, %v", key, brand, err)
		}
		if major, _, err := f.ComputeCapability(gpu); err != nil || major < 7 {
			t.Errorf("%s: compute capability %d, %v", key, major, err)
		}
	}
	if len(Models()) != 20 {
		t.Errorf("%d models, want 14 that can be cut, 3 that cannot, 1 with the memory of its host and 2 of virtual machines", len(Models()))
	}
}
