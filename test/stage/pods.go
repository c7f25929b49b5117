// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package stage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"gpuslice/test/cluster/node"
)

// agentName is the DaemonSet's name and the value of its pods' label app.
const agentName = "gpuslice"

// Deploy runs the agent as an installer does: a privileged pod of a DaemonSet. Called again with other flags it upgrades, one
// pod after the other (maxSurge 0), and waits until the new one is ready.
func (s *Stage) Deploy(ctx context.Context, extra ...string) error {
	zero, one := intstr.FromInt32(0), intstr.FromInt32(1)
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: agentName, Namespace: Namespace},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": agentName}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": agentName}}, Spec: s.agentPod(listen, extra...),
			},
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type:          appsv1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxSurge: &zero, MaxUnavailable: &one},
			},
		},
	}
	api := s.Client.AppsV1().DaemonSets(Namespace)
	_, err := api.Create(ctx, set, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = api.Update(ctx, set, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("deploy the agent: %w", err)
	}
	return node.Until(ctx, time.Minute, "rollout of the agent", func(ctx context.Context) error {
		d, err := api.Get(ctx, agentName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if st := d.Status; st.ObservedGeneration < d.Generation || st.UpdatedNumberScheduled != 1 || st.NumberReady != 1 {
			return fmt.Errorf("%d pods are of the new kind, %d ready: %w", st.UpdatedNumberScheduled, st.NumberReady, s.agentState(ctx))
		}
		return nil
	})
}

// agentState says what the pods of the DaemonSet wait for.
func (s *Stage) agentState(ctx context.Context) error {
	pods, err := s.AgentPods(ctx)
	errs := []error{err}
	for _, p := range pods {
		errs = append(errs, fmt.Errorf("%s: %s %s", p.Name, p.Status.Phase, p.Status.Message))
		for _, c := range p.Status.ContainerStatuses {
			errs = append(errs, fmt.Errorf("now %s, before %s", c.State.String(), c.LastTerminationState.String()))
		}
		list, err := s.Client.CoreV1().Events(Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + p.Name})
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for _, e := range list.Items {
			errs = append(errs, fmt.Errorf("%s: %s", e.Reason, e.Message))
		}
	}
	return errors.Join(errs...)
}

// Withdraw deletes the DaemonSet and waits until its pod is gone.
func (s *Stage) Withdraw(ctx context.Context) error {
	err := s.Client.AppsV1().DaemonSets(Namespace).Delete(ctx, agentName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("withdraw the agent: %w", err)
	}
	return node.Until(ctx, time.Minute, "end of the agent", func(ctx context.Context) error {
		pods, err := s.AgentPods(ctx)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("%d pods are left", len(pods))
		}
		return err
	})
}

// AgentPods are the pods of the DaemonSet.
func (s *Stage) AgentPods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := s.Client.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + agentName})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// SecondPod starts an agent in a pod of its own beside whatever else runs, with an address of its own.
func (s *Stage) SecondPod(ctx context.Context, name string) (*Another, error) {
	const address = "127.0.0.1:9411"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace}, Spec: s.agentPod(address)}
	if _, err := s.Client.CoreV1().Pods(Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("create pod %s: %w", name, err)
	}
	return &Another{url: "http://" + address}, s.PodRunning(ctx, Namespace, name)
}

// agentPod is the agent with what it needs of the host, each folder where the host has it. The parent of the driver's root is
// mounted, not the root itself, so that an upgrade of the driver is seen.
func (s *Stage) agentPod(address string, extra ...string) corev1.PodSpec {
	host, port, _ := strings.Cut(address, ":")
	privileged, grace := true, int64(30)
	hook := s.Dir.Program("nvidia-cdi-hook")
	if file, err := filepath.EvalSymlinks(hook); err == nil { // else the agent says that it is not there
		hook = file
	}
	args := s.AgentArgs(slices.Concat(extra, []string{"--listen=" + address, "--nvidia-cdi-hook=" + hook})...)
	spec := corev1.PodSpec{
		HostPID: true, HostNetwork: true, TerminationGracePeriodSeconds: &grace,
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{
			Name: "agent", Image: Image, ImagePullPolicy: corev1.PullNever, TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			Command:         append([]string{filepath.Join(s.bin, "gpu-plugin")}, args...),
			SecurityContext: &corev1.SecurityContext{Privileged: &privileged},
			ReadinessProbe: &corev1.Probe{
				PeriodSeconds: 1,
				ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: host, Port: intstr.Parse(port), Path: "/readyz"}},
			},
		}},
	}
	propagation := corev1.MountPropagationHostToContainer
	folders := []string{filepath.Dir(s.paths.Root), node.KubeletDir, node.CDIDir, stateDir, s.bin, string(s.Dir), filepath.Dir(hook)}
	for i, folder := range folders {
		name := fmt.Sprintf("host%d", i)
		kind := corev1.HostPathDirectoryOrCreate
		spec.Volumes = append(spec.Volumes, corev1.Volume{
			Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: folder, Type: &kind}},
		})
		spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts, corev1.VolumeMount{
			Name: name, MountPath: folder, MountPropagation: &propagation,
		})
	}
	return spec
}
