// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpuslice/test/stage"
)

const wholeGPUs = config + "nodes: [{gpus: [{layout: whole}]}]\n"

// running starts a pod with a GPU and says which it holds.
func (s *scene) running(name string) string {
	s.t.Helper()
	s.must(s.Run(s.t.Context(), stage.Workload{Name: name, Resource: "nvidia.com/gpu"}))
	held := s.allocated(name)
	if len(held) != 1 {
		s.t.Fatalf("%s holds %v", name, held)
	}
	return held[0]
}

// keeps wants the pod to run on with what it was given.
func (s *scene) keeps(pod, held string) {
	s.t.Helper()
	if restarts, now := s.restarts(pod), s.allocated(pod); restarts != 0 || !slices.Equal(now, []string{held}) {
		s.t.Errorf("%s was restarted %d times and holds %v, had %s", pod, restarts, now, held)
	}
}

// listed wants the lists that the kubelet has open: health by id.
func (s *scene) listed(want map[string]string) {
	s.t.Helper()
	s.within(soon, "the list", func(ctx context.Context) error {
		got, err := s.status(ctx)
		if err == nil && !maps.Equal(got, want) {
			err = errors.New(cmp.Diff(want, got))
		}
		return err
	})
}

// status reads which resources the agent lists: "1 healthy, 1 not" by name.
func (s *scene) status(ctx context.Context) (map[string]string, error) {
	doc, err := s.Status(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	list, _ := doc["resources"].([]any)
	for _, item := range list {
		r, _ := item.(map[string]any)
		found[fmt.Sprint(r["name"])] = fmt.Sprintf("%v healthy, %v not", r["healthy"], r["unhealthy"])
	}
	return found, nil
}

// P3, P6: a GPU is pulled out under a pod and put back into another slot: the pod keeps it, the kubelet sees it as unhealthy
// meanwhile, the others are given out, and it is healthy again under its id whatever its index and minor number are.
func TestPulledOutWhileHeld(t *testing.T) {
	s := begin(t, "3xl40s", wholeGPUs)
	s.offers(map[string]int64{"nvidia.com/gpu": 3})
	held := s.running("worker")
	number := s.number(held)
	s.must(errors.Join(s.Driver.Machine().RemoveGPU(number), s.Driver.Sync()))
	s.offers(map[string]int64{"nvidia.com/gpu": 2})
	s.listed(map[string]string{"nvidia.com/gpu": "2 healthy, 1 not"})
	s.health("worker", held, corev1.ResourceHealthStatusUnhealthy)
	if other := s.running("other"); other == held {
		t.Errorf("the GPU that is gone was given out")
	}
	others := map[int]int{} // the lowest number that is free goes to the GPU that comes back
	for _, g := range s.Driver.Machine().GPUs() {
		others[g.Number] = g.Minor + 10
	}
	s.must(errors.Join(s.Driver.Machine().SetMinors(others), s.Driver.Machine().ReturnGPU(number, "0000:F8:00.0"), s.Driver.Sync()))
	s.offers(map[string]int64{"nvidia.com/gpu": 3})
	s.listed(map[string]string{"nvidia.com/gpu": "3 healthy, 0 not"})
	s.health("worker", held, corev1.ResourceHealthStatusHealthy)
	s.keeps("worker", held)
	s.must(s.Alive())
}

// P6, K10: the driver goes under a pod, and the agent starts anew without it: its first list is the id that is held, unhealthy, and
// nothing else; everything is back with the driver, in the same process, and the pod has noticed nothing.
func TestRestartWithoutADriver(t *testing.T) {
	s := begin(t, "2xl40s", wholeGPUs)
	s.offers(map[string]int64{"nvidia.com/gpu": 2})
	held := s.running("worker")
	s.must(s.KillAgent(t.Context()))
	id, err := s.Driver.Control("fail", "call=Init", "code=DRIVER_NOT_LOADED")
	s.must(err)
	s.must(s.StartAgent(t.Context()))
	s.listed(map[string]string{"nvidia.com/gpu": "0 healthy, 1 not"})
	s.offers(map[string]int64{})
	s.within(soon, "capacity is the one that is held", func(ctx context.Context) error {
		n, err := s.Client.CoreV1().Nodes().Get(ctx, s.nodeName(ctx), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if capacity := n.Status.Capacity["nvidia.com/gpu"]; capacity.Value() != 1 {
			return fmt.Errorf("capacity %d", capacity.Value())
		}
		return nil
	})
	s.health("worker", held, corev1.ResourceHealthStatusUnhealthy)
	pid := s.PID()
	_, err = s.Driver.Control("heal", strings.TrimSpace(id))
	s.must(err)
	s.offers(map[string]int64{"nvidia.com/gpu": 2})
	s.health("worker", held, corev1.ResourceHealthStatusHealthy)
	s.keeps("worker", held)
	if s.must(s.Alive()); s.PID() != pid {
		t.Errorf("agent pid %d, was %d", s.PID(), pid)
	}
}

func (s *scene) nodeName(ctx context.Context) string {
	s.t.Helper()
	list, err := s.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	s.must(err)
	return list.Items[0].Name
}

// K09, K11, P3, P11: whatever is wrong with driver or GPUs when the agent starts, it is up and ready, says what it is, offers what can be
// offered, and the rest when the trouble is over, in one process.
func TestStartsInTrouble(t *testing.T) {
	s := begin(t, "3xl40s", wholeGPUs)
	s.offers(map[string]int64{"nvidia.com/gpu": 3})
	for _, tc := range []struct {
		name         string
		begin, end   []string
		reason, says string
		offered      int64
	}{
		{"library of another version", []string{"mismatch"}, []string{"load"}, "NoDriver", "LIB_RM_VERSION_MISMATCH", 0},
		{"no GPU", []string{"fail", "call=GPUCount", "code=DRIVER_NOT_LOADED"}, []string{"heal", "all"}, "NoDriver", "DRIVER_NOT_LOADED", 0},
		{"a GPU is lost", []string{"lose", "1"}, []string{"restore", "1"}, "GPUFault", "1 GPUs that the driver counts do not say who they are", 2},
		{"a GPU hangs", []string{"fail", "call=UUID", "gpus=2", "form=hung"}, []string{"heal", "all"}, "GPUFault", "driver does not answer", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s.must(s.KillAgent(t.Context()))
			_, err := s.Driver.Control(tc.begin...)
			s.must(err)
			s.must(s.StartAgent(t.Context()))
			pid := s.PID()
			want := map[string]int64{}
			if tc.offered > 0 {
				want["nvidia.com/gpu"] = tc.offered
			}
			s.offers(want)
			s.within(soon, "condition says why", func(ctx context.Context) error {
				c, err := s.Condition(ctx)
				if err == nil && (c.Reason != tc.reason || !strings.Contains(c.Message, tc.says)) {
					err = fmt.Errorf("%s: %s", c.Reason, c.Message)
				}
				return err
			})
			_, err = s.Driver.Control(tc.end...)
			s.must(err)
			s.offers(map[string]int64{"nvidia.com/gpu": 3})
			if s.must(s.Alive()); s.PID() != pid {
				t.Errorf("agent pid %d, was %d", s.PID(), pid)
			}
		})
	}
}

// K14, K15: on a machine whose GPUs cannot be handed out the agent stays up, ready and idle, the Node says why, and nothing is
// offered through either API.
func TestPlatformsThatAreNotSupported(t *testing.T) {
	for _, tc := range []struct{ name, mark, says string }{
		{"Jetson", "etc/nv_tegra_release", "not supported here: Tegra (found /run/jetson/etc/nv_tegra_release)"},
		{"WSL", "dev/dxg", "not supported here: WSL (found /dev/dxg)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := "/run/" + strings.ToLower(tc.name)
			if err := os.MkdirAll(filepath.Dir(filepath.Join(root, tc.mark)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, tc.mark), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			s := begin(t, "2xl40s", wholeGPUs, "--driver-root="+root, "--dev-root="+root)
			s.within(soon, "condition says why", func(ctx context.Context) error {
				c, err := s.Condition(ctx)
				if err == nil && (c.Status != corev1.ConditionFalse || c.Reason != "PlatformNotSupported" || !strings.Contains(c.Message, tc.says)) {
					err = fmt.Errorf("%s %s: %s", c.Status, c.Reason, c.Message)
				}
				return err
			})
			s.offers(map[string]int64{})
			if names, err := s.Published(t.Context()); err != nil || len(names) > 0 {
				t.Errorf("published %v, %v", names, err)
			}
			s.must(s.UntilReady(t.Context()))
			s.must(s.Alive())
		})
	}
}

// powerOff ends everything at once, as a node that loses its power does: the agent, the kubelet and every container.
func (s *scene) powerOff() {
	s.t.Helper()
	pods, err := s.Client.CoreV1().Pods(stage.Namespace).List(s.t.Context(), metav1.ListOptions{})
	s.must(err)
	s.must(errors.Join(s.KillAgent(s.t.Context()), s.Stop(s.t.Context(), "kubelet")))
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	s.must(err)
	killed := 0
	for _, path := range groups {
		text, err := os.ReadFile(path)
		if err != nil || !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return strings.Contains(string(text), string(p.UID)) }) {
			continue // it has ended, or is none of our pods'
		}
		var pid int
		if _, err := fmt.Sscanf(path, "/proc/%d/", &pid); err != nil {
			s.t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			s.t.Fatal(err)
		}
		killed++
	}
	if killed == 0 {
		s.t.Fatal("no container was found")
	}
}

// K02, P6: the node reboots, its instances are gone, and the driver takes long to open. Meanwhile the agent is up and says that it is
// not ready; it registers when the layout is there again, and the pod of a Deployment ends up running on what it asked for. What a
// pod may see before is the kubelet's, which asks nobody about a resource that nobody has registered yet.
func TestRebootWithASlowDriver(t *testing.T) {
	const slow = 8 * time.Second
	s := begin(t, "1xh100-sxm5-80gb", config+"layouts: {it: {mig: {fill: 3g}}}\nnodes: [{gpus: [{layout: it}]}]\n")
	s.offers(map[string]int64{"nvidia.com/mig-3g.40gb": 2})
	s.deploy("trainer", "nvidia.com/mig-3g.40gb")
	before := s.runningOf("trainer", "")
	s.powerOff()
	_, err := s.Driver.Control("reboot")
	s.must(err)
	if _, err = s.Driver.Control("latency", "Init", slow.String()); err != nil {
		t.Fatal(err)
	}
	s.must(s.StartKubelet(t.Context()))
	started := time.Now()
	s.must(s.LaunchAgent(nil))
	s.within(slow/2, "the process is up", s.Healthy)
	if sockets := s.sockets(); sockets != "" && time.Since(started) < slow {
		t.Errorf("registered as %s before the driver was open", sockets)
	}
	s.must(s.UntilReady(t.Context()))
	if took := time.Since(started); took < slow {
		t.Errorf("ready after %v, the driver takes %v", took, slow)
	}
	s.offers(map[string]int64{"nvidia.com/mig-3g.40gb": 2})
	after := s.runningOf("trainer", before)
	given, err := s.Sees(t.Context(), after)
	s.must(err)
	if !slices.ContainsFunc(given, func(uuid string) bool { return strings.HasPrefix(uuid, "MIG-") }) {
		t.Errorf("%s sees %v", after, given)
	}
	s.reportRejected("trainer")
}

// deploy creates a Deployment of one pod that asks for one device.
func (s *scene) deploy(name, resource string) {
	s.t.Helper()
	pod := stage.Workload{Name: name, Resource: resource}.Pod()
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	pod.Labels = map[string]string{"app": name}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: stage.Namespace},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec},
		},
	}
	api := s.Client.AppsV1().Deployments(stage.Namespace)
	_, err := api.Create(s.t.Context(), d, metav1.CreateOptions{})
	s.must(err)
	s.t.Cleanup(func() {
		if err := api.Delete(context.WithoutCancel(s.t.Context()), name, metav1.DeleteOptions{}); err != nil {
			s.t.Error(err)
		}
	})
}

// runningOf waits for the pod of a Deployment to run with containers that were started after those of before.
func (s *scene) runningOf(name, before string) (pod string) {
	s.t.Helper()
	s.within(2*soon, "pod of "+name+" runs", func(ctx context.Context) error {
		pods, err := s.Client.CoreV1().Pods(stage.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		if err != nil {
			return err
		}
		said := []string{}
		for _, p := range pods.Items {
			ready := slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Ready && c.State.Running != nil })
			if p.Status.Phase == corev1.PodRunning && ready && (p.Name != before || p.Status.ContainerStatuses[0].RestartCount > 0) {
				pod = p.Name
				return nil
			}
			said = append(said, fmt.Sprintf("%s %s %s %s", p.Name, p.Status.Phase, p.Status.Reason, p.Status.Message))
		}
		return fmt.Errorf("pods: %q", said)
	})
	return pod
}

// reportRejected logs what the kubelet made of pods before the plugin was registered.
func (s *scene) reportRejected(name string) {
	s.t.Helper()
	pods, err := s.Client.CoreV1().Pods(stage.Namespace).List(s.t.Context(), metav1.ListOptions{LabelSelector: "app=" + name})
	s.must(err)
	for _, p := range pods.Items {
		s.t.Logf("%s: %s %s %s", p.Name, p.Status.Phase, p.Status.Reason, p.Status.Message)
	}
}
