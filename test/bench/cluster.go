// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// cluster is an API server to measure with.
type cluster struct {
	kubeconfig string
	nodeName   string
}

// measureCluster takes the rows that need an API server, and no others: it would take their share of the cores.
func (b *bench) measureCluster(ctx context.Context, c cluster) ([]condition, error) {
	with := condition{"0s", figures{}}
	for range b.repeat {
		if err := calibrate(ctx, b.at.dir, with.figures); err != nil {
			return nil, err
		}
		took, err := c.timeGet(ctx)
		if err != nil {
			return nil, err
		}
		with.add(calibrationGet, took)
	}
	err := b.on(eight, 0, func(n *node) error {
		for range b.repeat {
			if err := b.both(ctx, n, c, with.figures); err != nil {
				return err
			}
		}
		return nil
	})
	return []condition{with}, err
}

// timeGet is how long the API server takes for one object.
func (c cluster) timeGet(ctx context.Context) (float64, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		return 0, err
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	return each(200, func(int) error {
		_, err := client.CoreV1().Nodes().Get(ctx, c.nodeName, metav1.GetOptions{})
		return err
	})
}

// both is one life of our plugin with both APIs.
func (b *bench) both(ctx context.Context, n *node, c cluster, f figures) (err error) {
	template := slices.Clone(b.template)
	i := slices.Index(template, "--api=device-plugin")
	if i < 0 {
		return errors.New("only our own plugin has both APIs")
	}
	template[i] = "--api=device-plugin,dra"
	s, err := n.begin(append(template, "--kubeconfig="+c.kubeconfig, "--node-name="+c.nodeName), b.configs[whole])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	if err := s.until(ctx, offers{gpus: 8}); err != nil {
		return fmt.Errorf("both APIs: %w", err)
	}
	if err := wait(ctx, b.idle); err != nil {
		return err
	}
	anonymous, total, err := s.memory()
	f.add(anonymousBoth, anonymous)
	f.add(residentBoth, total)
	return err
}
