// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
)

// podLimit is generous, because the cluster and its tests share a few cores.
const podLimit = time.Minute

// Container names a container of a pod. An empty Name is the only container.
type Container struct{ Namespace, Pod, Name string }

func (c Container) String() string {
	if c.Name == "" {
		return c.Namespace + "/" + c.Pod
	}
	return c.Namespace + "/" + c.Pod + "/" + c.Name
}

// Exec runs a program in a container through the API server and returns its output. A program that fails is an error with what it
// wrote to stderr; errors.As finds its exit status as k8s.io/client-go/util/exec.CodeExitError.
func (n *Node) Exec(ctx context.Context, c Container, argv ...string) (stdout, stderr string, err error) {
	request := n.Client.CoreV1().RESTClient().Post().Resource("pods").Namespace(c.Namespace).Name(c.Pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: c.Name, Command: argv, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(n.Config, "GET", request.URL().String())
	if err != nil {
		return "", "", fmt.Errorf("exec in %s: %w", c, err)
	}
	var out, errOut bytes.Buffer
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &errOut}); err != nil {
		return out.String(), errOut.String(), fmt.Errorf("exec %q in %s: %w: %s", argv, c, err, bytes.TrimSpace(errOut.Bytes()))
	}
	return out.String(), errOut.String(), nil
}

// Logs returns what a container has written so far.
func (n *Node) Logs(ctx context.Context, c Container) (string, error) {
	stream, err := n.Client.CoreV1().Pods(c.Namespace).GetLogs(c.Pod, &corev1.PodLogOptions{Container: c.Name}).Stream(ctx)
	if err != nil {
		return "", fmt.Errorf("logs of %s: %w", c, err)
	}
	defer stream.Close()
	logs, err := io.ReadAll(stream)
	if err != nil {
		return "", fmt.Errorf("read the logs of %s: %w", c, err)
	}
	return string(logs), nil
}

// PodRunning waits until every container of the pod runs, for a minute at most. A pod that has failed is given up at once.
func (n *Node) PodRunning(ctx context.Context, namespace, name string) error {
	return Until(ctx, podLimit, "pod "+namespace+"/"+name+" to run", func(ctx context.Context) error {
		pod, err := n.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("get pod: %w", err)
		}
		return missingToRun(pod)
	})
}

// missingToRun is nil for a pod whose containers all run.
func missingToRun(pod *corev1.Pod) error {
	status := pod.Status
	if status.Phase == corev1.PodFailed || status.Phase == corev1.PodSucceeded {
		return Hopeless(fmt.Errorf("phase is %s: %s: %s", status.Phase, status.Reason, status.Message))
	}
	for _, condition := range status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status != corev1.ConditionTrue {
			return fmt.Errorf("not scheduled: %s: %s", condition.Reason, condition.Message)
		}
	}
	if len(status.ContainerStatuses) < len(pod.Spec.Containers) {
		return fmt.Errorf("phase is %s, and the kubelet has reported %d of %d containers",
			status.Phase, len(status.ContainerStatuses), len(pod.Spec.Containers))
	}
	for _, container := range status.ContainerStatuses {
		switch {
		case container.State.Running != nil:
		case container.State.Waiting != nil:
			return fmt.Errorf("container %s waits: %s: %s", container.Name, container.State.Waiting.Reason, container.State.Waiting.Message)
		case container.State.Terminated != nil:
			return fmt.Errorf("container %s has ended with status %d: %s",
				container.Name, container.State.Terminated.ExitCode, container.State.Terminated.Message)
		default:
			return fmt.Errorf("container %s has no state", container.Name)
		}
	}
	return nil
}

// DeletePod deletes the pod at once and waits until it is gone, for a minute at most. A pod that is not there is no error.
func (n *Node) DeletePod(ctx context.Context, namespace, name string) error {
	now := int64(1)
	err := n.Client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete pod %s/%s: %w", namespace, name, err)
	}
	return Until(ctx, podLimit, "pod "+namespace+"/"+name+" to go", func(ctx context.Context) error {
		_, err := n.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return fmt.Errorf("get pod: %w", err)
		default:
			return errors.New("it is still there")
		}
	})
}
