// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package layouts_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tags.cncf.io/container-device-interface/specs-go"

	"gpuslice/pkg/cdi"
	"gpuslice/pkg/devices/nvml"
	"gpuslice/test/simdriver/driverroot"
	"gpuslice/test/simdriver/library"
	"gpuslice/test/specwalk"
)

// installer puts a driver's files into a folder as packages and driver containers do, step by step.
type installer struct {
	t   *testing.T
	dir string
}

var sonames = append([]string{library.SOName}, library.Companions...)

func (i installer) file(soname, version string) string {
	base, _, _ := strings.Cut(soname, ".so")
	return filepath.Join(i.dir, base+".so."+version)
}

func (i installer) must(err error) {
	i.t.Helper()
	if err != nil {
		i.t.Fatal(err)
	}
}

// unpack writes one library, whole or not at all.
func (i installer) unpack(soname, version string) {
	i.t.Helper()
	from := built.Driver.Companion(soname)
	if soname == library.SOName {
		from = built.Driver.NVML(library.New)
	}
	data, err := os.ReadFile(from)
	i.must(err)
	path := i.file(soname, version)
	i.must(errors.Join(os.WriteFile(path+".dpkg-new", data, 0o755), os.Rename(path+".dpkg-new", path)))
}

// link makes the name that applications load mean a version.
func (i installer) link(soname, version string) {
	i.t.Helper()
	path := filepath.Join(i.dir, soname)
	i.must(errors.Join(os.Symlink(filepath.Base(i.file(soname, version)), path+".new"), os.Rename(path+".new", path)))
}

func (i installer) remove(soname, version string) {
	i.t.Helper()
	i.must(os.Remove(i.file(soname, version)))
}

// reader reads spec files over and over, as a runtime does when containers start, and judges what it reads.
type reader struct {
	files []string
	bound time.Duration // how long a spec may name what is not there; 0: never

	mu    sync.Mutex
	reads int
	wrong []string
}

// run reads until the context ends. A path that is missing counts only if the file still says so: it may have been replaced
// between the read and the look.
func (r *reader) run(ctx context.Context) {
	for ctx.Err() == nil {
		for _, path := range r.files {
			text, err := os.ReadFile(path)
			since := time.Now()
			for err == nil {
				if err = specwalk.Text(text); err == nil || errors.Is(err, specwalk.ErrPartial) {
					break
				}
				now, again := os.ReadFile(path)
				if again != nil {
					err = again
					break
				}
				if !bytes.Equal(now, text) || time.Since(since) < r.bound {
					text, err = now, nil
					continue
				}
				break
			}
			r.note(path, err)
		}
	}
}

func (r *reader) note(path string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	if err != nil {
		r.wrong = append(r.wrong, fmt.Sprintf("read %d of %s: %v", r.reads, filepath.Base(path), err))
	}
}

func (r *reader) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reads
}

const (
	switches = 50
	reads    = 10_000
)

// A driver is upgraded under the agent again and again, while specs of the device plugin and of a claim are read all the time.
//
// Where the old files go only when the specs name the new ones, as driver containers do that install beside each other, the rule
// is strict: no read ever sees a path that is not there. Where packages remove the old files while they unpack the new ones,
// nobody can keep that; the rule is that within 5 s, which is the upgrade itself and two looks, the spec is right again. In both
// no read ever sees half a file.
func TestUpgrades(t *testing.T) {
	for _, tt := range []struct {
		name    string
		bound   time.Duration
		upgrade func(i installer, old, next string, followed func())
	}{
		{"beside each other", 0, func(i installer, old, next string, followed func()) {
			for _, so := range sonames {
				i.unpack(so, next)
			}
			for _, so := range sonames {
				i.link(so, next)
			}
			followed()
			for _, so := range sonames {
				i.remove(so, old)
			}
		}},
		{"one over the other", 5 * time.Second, func(i installer, old, next string, followed func()) {
			for _, so := range sonames {
				i.remove(so, old)
				i.unpack(so, next)
				i.link(so, next)
			}
			followed()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root, dir := t.TempDir(), t.TempDir()
			i := installer{t, filepath.Join(root, "usr/lib64")}
			i.must(os.MkdirAll(i.dir, 0o755))
			for _, so := range sonames {
				i.unpack(so, "535.100.0")
				i.link(so, "535.100.0")
			}
			w := startWriter(t, root, dir)
			ctx, stop := context.WithCancel(t.Context())
			r := &reader{bound: tt.bound, files: []string{filepath.Join(dir, specFile), filepath.Join(dir, cdi.ClaimFile("u1")+".json")}}
			var done sync.WaitGroup
			done.Go(func() { r.run(ctx) })
			done.Go(func() { follow(ctx, w) })
			for k := range switches {
				next := fmt.Sprintf("535.%d.0", 101+k)
				tt.upgrade(i, fmt.Sprintf("535.%d.0", 100+k), next, func() { names(t, r.files, next) })
			}
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for r.count() < reads {
				<-tick.C
			}
			stop()
			done.Wait()
			t.Logf("%d switches, %d reads", switches, r.count())
			for _, text := range r.wrong[:min(5, len(r.wrong))] {
				t.Error(text)
			}
			if err := specwalk.Directory(dir); err != nil {
				t.Error(err)
			}
		})
	}
}

// startWriter publishes a spec of the device plugin and one of a claim that an earlier process wrote.
func startWriter(t *testing.T, root, dir string) *cdi.Writer {
	t.Helper()
	make := func() *cdi.Writer {
		files := cdi.NewFiles(dir)
		return &cdi.Writer{
			Files: files, Nodes: cdi.Computed{}, Owner: "n1", Print: func() string { return nvml.Print(root) },
			Common: func() (specs.ContainerEdits, error) {
				return nvml.CommonEdits(nvml.EditsOptions{DriverRoot: root, HookPath: "/bin/true"})
			},
		}
	}
	before, w := make(), make()
	// The numbers of /dev/null, for a node that is there on every machine.
	list := []cdi.Device{{Names: []string{"GPU-a"}, Nodes: []cdi.Node{{Path: "/dev/null", Major: 1, Minor: 3}}}}
	if err := errors.Join(before.WriteClaim("u1", list), w.WriteDevicePlugin(list)); err != nil {
		t.Fatal(err)
	}
	return w
}

// follow looks a hundred times faster than the agent.
func follow(ctx context.Context, w *cdi.Writer) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		_, _ = w.Follow() // fails while files are being replaced; the reader judges
		<-tick.C
	}
}

// names waits until every spec names the libraries of a version and no other's.
func names(t *testing.T, files []string, version string) {
	t.Helper()
	start, tick := time.Now(), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for _, path := range files {
		for {
			text, err := os.ReadFile(path)
			if err == nil && bytes.Count(text, []byte(`.so.`+version+`","containerPath"`)) == len(sonames) {
				break
			}
			if time.Since(start) > soon {
				t.Fatalf("%s does not follow to %s: %v\n%s", path, version, err, text)
			}
			<-tick.C
		}
	}
}

// While a driver is half installed, what was published stays, and the agent says what is missing; when it is whole, the agent
// follows by itself. Nothing that was offered turns sick meanwhile.
func TestUpgradeUnderTheAgent(t *testing.T) {
	n := newNode(t, "run/nvidia/driver", driverroot.RedHat())
	n.start()
	n.healthy(2, 2)
	n.silence()
	const old, next = "535.161.08", "535.171.04"
	i := installer{t, n.paths.Libraries()}
	path := filepath.Join(n.cdiDir, specFile)
	before, err := os.ReadFile(path)
	i.must(err)
	pid := n.agent.Process.Pid

	i.unpack(library.SOName, next)
	i.link(library.SOName, next)
	n.problem("DriverFilesMissing", "half installed", "libnvidia-ml.so.1 is of version "+next, "libcuda.so.1 of "+old)
	i.must(os.Remove(filepath.Join(i.dir, "libcuda.so.1")))
	n.problem("DriverFilesMissing", filepath.Join(n.paths.Root, "usr/lib64/libcuda.so.1"))
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, before) {
		t.Errorf("half a driver was published: %v\n%s", err, now)
	}
	n.healthy(2, 2)

	for _, so := range library.Companions {
		i.unpack(so, next)
		i.link(so, next)
	}
	n.silence()
	names(t, []string{path}, next)
	for _, so := range sonames {
		i.remove(so, old)
	}
	if err := specwalk.Directory(n.cdiDir); err != nil {
		t.Error(err)
	}
	n.healthy(2, 2)
	if log := n.log(); strings.Contains(log, "cannot be injected") || strings.Contains(log, "no device can be injected") {
		t.Errorf("devices turned sick meanwhile:\n%s", log)
	}
	if n.agent.Process.Pid != pid || n.agent.ProcessState != nil {
		t.Error("the agent was restarted")
	}
}
