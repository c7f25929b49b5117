// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package node

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const kubelet = "kubelet"

// readyLimit bounds the time from the kubelet's start until it serves.
const readyLimit = 2 * time.Minute

// RestartKubelet stops the kubelet, starts it again and waits as StartKubelet does.
func (n *Node) RestartKubelet(ctx context.Context) error {
	if err := n.Stop(ctx, kubelet); err != nil {
		return err
	}
	return n.StartKubelet(ctx)
}

// StartKubelet starts the stopped kubelet and waits, for two minutes at most, until the new one has renewed its lease, has reported
// the node Ready and serves the pods that are bound to the node.
func (n *Node) StartKubelet(ctx context.Context) error {
	start := time.Now()
	if err := n.Start(ctx, kubelet); err != nil {
		return err
	}
	return Until(ctx, readyLimit, "the restarted kubelet", func(ctx context.Context) error {
		if err := n.renewed(ctx, start); err != nil {
			return err
		}
		if err := n.Ready(ctx, start); err != nil {
			return err
		}
		return n.knowsPods(ctx)
	})
}

// Ready says with nil that the kubelet has reported Ready at or after a moment, in the API's resolution of a second.
func (n *Node) Ready(ctx context.Context, since time.Time) error {
	node, err := n.Client.CoreV1().Nodes().Get(ctx, Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get node: %w", err)
	}
	return readySince(node.Status.Conditions, since.Truncate(time.Second))
}

func readySince(conditions []corev1.NodeCondition, since time.Time) error {
	for _, condition := range conditions {
		switch {
		case condition.Type != corev1.NodeReady:
			continue
		case condition.Status != corev1.ConditionTrue:
			return fmt.Errorf("the node is not ready: %s: %s", condition.Reason, condition.Message)
		case condition.LastHeartbeatTime.Time.Before(since):
			return fmt.Errorf("the node was last reported ready at %s", condition.LastHeartbeatTime.UTC().Format(time.TimeOnly))
		default:
			return nil
		}
	}
	return fmt.Errorf("the node has no %s condition", corev1.NodeReady)
}

func (n *Node) renewed(ctx context.Context, since time.Time) error {
	lease, err := n.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get the node's lease: %w", err)
	}
	if lease.Spec.RenewTime == nil || lease.Spec.RenewTime.Time.Before(since) {
		return fmt.Errorf("the node's lease was not renewed since %s", since.UTC().Format(time.TimeOnly))
	}
	return nil
}

// knowsPods says with nil that the kubelet has learnt of every pod that the API server has bound to the node.
func (n *Node) knowsPods(ctx context.Context) error {
	bound, err := n.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + Name})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	answer, err := n.Client.CoreV1().RESTClient().Get().Resource("nodes").Name(Name).SubResource("proxy").Suffix("pods").DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("ask the kubelet for its pods: %w", err)
	}
	var known corev1.PodList
	if err := json.Unmarshal(answer, &known); err != nil {
		return fmt.Errorf("decode the kubelet's pods: %w", err)
	}
	return missingPod(bound.Items, known.Items)
}

func missingPod(bound, known []corev1.Pod) error {
	uids := make(map[types.UID]bool, len(known))
	for _, pod := range known {
		uids[pod.UID] = true
	}
	for _, pod := range bound {
		if !uids[pod.UID] {
			return fmt.Errorf("the kubelet does not know of pod %s/%s", pod.Namespace, pod.Name)
		}
	}
	return nil
}
