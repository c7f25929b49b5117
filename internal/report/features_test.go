// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package report_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"gpuslice/internal/agent"
	"gpuslice/internal/features"
	"gpuslice/internal/report"
	"gpuslice/pkg/devices"
)

// offered is a view of GPUs of one model.
func offered(gpus ...devices.GPU) *agent.View {
	v := &agent.View{Ways: []agent.Way{agent.Whole}}
	for _, g := range gpus {
		v.Node.GPUs = append(v.Node.GPUs, g)
		v.Targets = append(v.Targets, agent.Target{GPU: g})
	}
	return v
}

func l40s(n string) devices.GPU {
	return devices.GPU{UUID: "GPU-" + n, PCI: "0000:0" + n + ":00.0", Product: "NVIDIA L40S", Model: "l40s", MemoryMiB: 46068, ComputeMajor: 8, ComputeMinor: 9}
}

// bubble is a Node in a time of its own, with what processes wrote to it.
type bubble struct {
	t      *testing.T
	client kubernetes.Interface
	log    *lockedBuffer
	seen   map[string]bool // labels that were ever seen
	gone   []string        // labels that went
	writes int
	mu     sync.Mutex
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newBubble watches the Node's labels after every write.
func newBubble(t *testing.T) *bubble {
	t.Helper()
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"mine": "stays"}}})
	b := &bubble{t: t, client: client, log: &lockedBuffer{}, seen: map[string]bool{}}
	watch, err := client.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.writes++
		return false, nil, nil
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range watch.ResultChan() {
			n, ok := e.Object.(*corev1.Node)
			if !ok {
				continue
			}
			b.mu.Lock()
			for key := range b.seen {
				if _, has := n.Labels[key]; !has {
					b.gone = append(b.gone, key)
					delete(b.seen, key)
				}
			}
			for key := range n.Labels {
				b.seen[key] = true
			}
			b.mu.Unlock()
		}
	}()
	t.Cleanup(func() { watch.Stop(); <-done })
	return b
}

// process is an agent's process; what it returns ends it.
func (b *bubble) process(v *views, hosts report.Hosts) (end func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(b.t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(b.log)))))
	ended := make(chan error, 1)
	go func() { ended <- report.Node(ctx, b.client, "n1", v, hosts) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
	}
}

func (b *bubble) labels() map[string]string {
	b.t.Helper()
	synctest.Wait()
	n, err := b.client.CoreV1().Nodes().Get(b.t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return n.Labels
}

// update changes the labels as another manager.
func (b *bubble) update(manager string, change func(map[string]string)) {
	b.t.Helper()
	n, err := b.client.CoreV1().Nodes().Get(b.t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	change(n.Labels)
	if _, err := b.client.CoreV1().Nodes().Update(b.t.Context(), n, metav1.UpdateOptions{FieldManager: manager}); err != nil {
		b.t.Fatal(err)
	}
	synctest.Wait()
}

func (b *bubble) lost() []string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.gone)
}

func (b *bubble) written() int {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.writes
}

func (b *bubble) are(why string, want map[string]string) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.labels()); diff != "" {
		b.t.Errorf("%s: labels (-want +got):\n%s", why, diff)
	}
}

func machine(*agent.View) features.Host { return features.Host{Machine: "X9SRA/X9SRA-3"} }

// L04: labels are there through restarts, with a driver that does not answer and with GPUs that do not, and go with the GPUs.
func TestLabelsSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		v := &views{view: offered(l40s("1"), l40s("2")), changed: make(chan struct{})}
		end := b.process(v, machine)
		want := b.labels()
		if want["nvidia.com/gpu.count"] != "2" || want["nvidia.com/gpu.machine"] != "X9SRAX9SRA-3" || want["gpuslice.dev/mode"] != "whole" || want["nvidia.com/gfd.timestamp"] == "" || want["mine"] != "stays" {
			t.Fatalf("labels are %v", want)
		}
		faulty, unread := l40s("1"), devices.GPU{PCI: "0000:01:00.0", Fault: errors.New("lost")}
		faulty.Fault = errors.New("lost")
		for _, step := range []struct {
			why  string
			view *agent.View
		}{
			{"a new process knows nothing", nil},
			{"the driver does not answer", &agent.View{Unseen: true}},
			{"one GPU does not say what it is", offered(unread, l40s("2"))},
			{"none does", offered(unread, unread)},
			{"a GPU is faulty", offered(faulty, l40s("2"))},
			{"all are well", offered(l40s("1"), l40s("2"))},
		} {
			end()
			<-time.After(time.Hour) // a timestamp of another process would be another
			v = &views{view: step.view, changed: make(chan struct{})}
			end = b.process(v, machine)
			b.are("a new process: "+step.why, want)
			v.set(offered(l40s("1"), l40s("2")))
			b.are("a look that succeeds after: "+step.why, want)
			v.set(step.view)
			b.are("the same process: "+step.why, want)
		}
		if lost := b.lost(); len(lost) > 0 {
			t.Errorf("these labels went: %v", lost)
		}
		v.set(offered(l40s("2")))
		maps.Copy(want, map[string]string{"nvidia.com/gpu.count": "1", "gpuslice.dev/l40s.count": "1", "gpuslice.dev/gpu.count.full": "1"})
		b.are("one GPU is gone", want)
		v.set(offered())
		if lost := b.lost(); !slices.Contains(lost, "nvidia.com/gpu.count") {
			t.Errorf("labels of GPUs that are gone stay; %v went", lost)
		}
		b.are("all are gone", map[string]string{"mine": "stays", "gpuslice.dev/mode": "whole", "nvidia.com/gfd.timestamp": want["nvidia.com/gfd.timestamp"]})
		end()
	})
}

// A Node whose labels somebody has edited is looked at soon, and not at once.
func TestStrippedLabelsComeBackSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		view := offered(l40s("1"))
		v := &views{view: view, changed: make(chan struct{})}
		end := b.process(v, machine)
		<-time.After(15 * time.Second)
		b.update("nfd-master", func(labels map[string]string) { delete(labels, "nvidia.com/gpu.count") })
		edited := *view
		edited.Labels = map[string]string{"edited": "yes"} // as the watch of the Node tells
		v.set(&edited)
		if got := b.labels(); got["nvidia.com/gpu.count"] != "" {
			t.Error("raced with who took it away")
		}
		<-time.After(6 * time.Second)
		if got := b.labels(); got["nvidia.com/gpu.count"] != "1" {
			t.Errorf("6 s after the edit: %v", got)
		}
		end()
	})
}

// L05: labels that somebody strips come back, nothing else does, and while nothing is to be said nothing is written.
func TestStrippedLabelsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		end := b.process(&views{view: offered(l40s("1")), changed: make(chan struct{})}, machine)
		want := b.labels()
		written := b.written()
		<-time.After(10 * time.Minute)
		if n := b.written(); n != written {
			t.Errorf("%d writes while nothing changed", n-written)
		}
		b.update("nfd-master", func(labels map[string]string) {
			maps.DeleteFunc(labels, func(key, _ string) bool {
				return strings.HasPrefix(key, "nvidia.com/") && key != "nvidia.com/gfd.timestamp" || strings.HasPrefix(key, "gpuslice.dev/")
			})
			labels["theirs"] = "x"
		})
		want["theirs"] = "x"
		<-time.After(2 * time.Minute)
		b.are("stripped", want)
		end()
	})
}

// A label that another manager writes stays as that manager says and is reported with its name; all others are written, and that
// one too once nobody else writes it.
func TestOthersLabelsKeepNoneFromBeingWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		b.update("nfd-master", func(labels map[string]string) {
			maps.Copy(labels, map[string]string{"nvidia.com/gpu.count": "7", "nvidia.com/gpu.memory": "1", "nvidia.com/gpu.family": "ada-lovelace", "nvidia.com/gfd.timestamp": "12"})
		})
		b.update("kubectl label", func(labels map[string]string) { labels["gpuslice.dev/mode"] = "mine" })
		v := &views{view: offered(l40s("1")), changed: make(chan struct{})}
		end := b.process(v, machine)
		got := b.labels()
		for key, value := range map[string]string{
			"nvidia.com/gpu.count": "7", "nvidia.com/gpu.memory": "1", "nvidia.com/gfd.timestamp": "12", "gpuslice.dev/mode": "mine",
			"nvidia.com/gpu.family": "ada-lovelace", "nvidia.com/gpu.product": "NVIDIA-L40S", "gpuslice.dev/l40s.count": "1",
		} {
			if got[key] != value {
				t.Errorf("%s is %q, want %q", key, got[key], value)
			}
		}
		<-time.After(10 * time.Minute)
		const said = `label node n1: kubectl label holds gpuslice.dev/mode; nfd-master holds nvidia.com/gpu.count, nvidia.com/gpu.memory; they stay as they are until nobody else writes them`
		if n := strings.Count(b.log.String(), said); n != 1 {
			t.Errorf("said %d times who holds what, want once:\n%s", n, b.log.String())
		}
		problems := fmt.Sprint(v.told("labels"))
		for _, want := range []string{`LabelConflict: field manager "kubectl label" holds gpuslice.dev/mode`, `LabelConflict: field manager "nfd-master" holds nvidia.com/gpu.count, nvidia.com/gpu.memory`} {
			if !strings.Contains(problems, want) {
				t.Errorf("told %s, want %s", problems, want)
			}
		}
		v.set(offered(l40s("1"), l40s("2")))
		if got := b.labels(); got["gpuslice.dev/l40s.count"] != "2" || got["nvidia.com/gpu.count"] != "7" {
			t.Errorf("with one GPU more: %v", got)
		}
		b.update("nfd-master", func(labels map[string]string) { delete(labels, "nvidia.com/gpu.count") })
		<-time.After(2 * time.Minute)
		if got := b.labels(); got["nvidia.com/gpu.count"] != "2" || got["nvidia.com/gpu.memory"] != "1" {
			t.Errorf("after one was given up: %v", got)
		}
		end()
	})
}

// A Node that cannot be written for another reason is tried again soon.
func TestLabelsAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		client, ok := b.client.(*fake.Clientset)
		if !ok {
			t.Fatal("not a fake")
		}
		failures := 3
		client.PrependReactor("patch", "nodes", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if p, is := a.(clienttesting.PatchAction); is && p.GetPatchType() == "application/apply-patch+yaml" && failures > 0 {
				failures--
				return true, nil, errors.New("API server is away")
			}
			return false, nil, nil
		})
		end := b.process(&views{view: offered(l40s("1")), changed: make(chan struct{})}, nil)
		<-time.After(10 * time.Second)
		if got := b.labels(); got["nvidia.com/gpu.count"] != "1" || got["nvidia.com/gpu.machine"] != "unknown" {
			t.Errorf("labels are %v", got)
		}
		end()
	})
}
