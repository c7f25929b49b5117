// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gpuslice/test/cluster/image"
	"gpuslice/test/cluster/node"
)

const (
	greeting = "hello from the pod"
	// credentials is where the kubelet mounts the pod's token and the authority that signs the API server's certificate.
	credentials = "/var/run/secrets/kubernetes.io/serviceaccount/"
)

// smoke proves on the cluster it runs in that pods, tokens, exec, logs and a kubelet restart work.
func smoke(ctx context.Context, progress io.Writer) error {
	n, err := node.Attach()
	if err != nil {
		return err
	}
	target := node.Container{Namespace: metav1.NamespaceDefault, Pod: "smoke"}
	steps := []struct {
		name string
		do   func(context.Context) error
	}{
		{"resource.k8s.io/v1 is served", func(context.Context) error {
			_, err := n.Client.Discovery().ServerResourcesForGroupVersion("resource.k8s.io/v1")
			return err
		}},
		{"create a pod", func(ctx context.Context) error {
			_, err := n.Client.CoreV1().Pods(target.Namespace).Create(ctx, smokePod(target), metav1.CreateOptions{})
			return err
		}},
		{"the pod runs", func(ctx context.Context) error { return n.PodRunning(ctx, target.Namespace, target.Pod) }},
		{"exec: it is in the node's cgroup", func(ctx context.Context) error {
			return execContains(ctx, n, target, "/kubepods/", "cat", "/proc/self/cgroup")
		}},
		{"exec: it reaches the API server's service address", func(ctx context.Context) error {
			const connect = "nc -w 5 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT </dev/null && echo $KUBERNETES_SERVICE_HOST"
			return execContains(ctx, n, target, "10.96.0.1", "sh", "-c", connect)
		}},
		{"its credentials name its service account", func(ctx context.Context) error { return credentialsWork(ctx, n, target) }},
		{"logs", func(ctx context.Context) error { return logsAre(ctx, n, target, greeting+"\n") }},
		{"restart the kubelet", n.RestartKubelet},
		{"exec: it still runs", func(ctx context.Context) error { return execContains(ctx, n, target, "hello", "echo", "hello") }},
		{"delete the pod", func(ctx context.Context) error { return n.DeletePod(ctx, target.Namespace, target.Pod) }},
	}
	for _, step := range steps {
		start := time.Now()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("smoke: %s: %w", step.name, err)
		}
		fmt.Fprintf(progress, "%6.2f s  %s\n", time.Since(start).Seconds(), step.name)
	}
	return nil
}

func smokePod(c node.Container) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Pod},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name:            "main",
			Image:           image.BusyboxName,
			ImagePullPolicy: corev1.PullNever,
			Command:         []string{"sh", "-c", "echo " + greeting + "; trap 'exit 0' TERM; sleep 3600 & wait"},
		}}},
	}
}

// credentialsWork calls the API server with what the pod finds in its file system, and nothing else.
func credentialsWork(ctx context.Context, n *node.Node, c node.Container) error {
	token, _, err := n.Exec(ctx, c, "cat", credentials+"token")
	if err != nil {
		return err
	}
	authority, _, err := n.Exec(ctx, c, "cat", credentials+"ca.crt")
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host:            n.Config.Host,
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAData: []byte(authority)},
	})
	if err != nil {
		return fmt.Errorf("build the pod's client: %w", err)
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("ask who the pod is: %w", err)
	}
	if got, want := review.Status.UserInfo.Username, "system:serviceaccount:"+c.Namespace+":default"; got != want {
		return fmt.Errorf("the pod's token belongs to %q, not to %q", got, want)
	}
	return nil
}

func execContains(ctx context.Context, n *node.Node, c node.Container, want string, argv ...string) error {
	stdout, _, err := n.Exec(ctx, c, argv...)
	if err != nil {
		return err
	}
	if !strings.Contains(stdout, want) {
		return fmt.Errorf("%q printed %q, without %q", argv, stdout, want)
	}
	return nil
}

func logsAre(ctx context.Context, n *node.Node, c node.Container, want string) error {
	logs, err := n.Logs(ctx, c)
	if err != nil {
		return err
	}
	if logs != want {
		return fmt.Errorf("the logs of %s are %q, not %q", c, logs, want)
	}
	return nil
}
