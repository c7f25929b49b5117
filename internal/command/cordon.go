// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"

	"gpuslice/internal/cordon"
	"gpuslice/internal/daemon"
)

// CordonCommand is not of the agent: it runs once in a cluster, reaches the API server and nothing else.
func CordonCommand() Command {
	return Command{Name: "cordon", Summary: "keep new pods off the nodes whose GPUs are gone, for a whole cluster", Run: runCordon}
}

// cordonText is the flags of cordon as they were given.
type cordonText struct{ threshold, wait, most string }

func cordonFlags(set *flag.FlagSet, f *Flags) *cordonText {
	text := &cordonText{}
	set.StringVar(&text.threshold, "threshold", "50%", "for cordon: so many of a node's GPUs, at least, are unhealthy: 2, or 50%")
	set.StringVar(&text.wait, "wait", "1m", "for cordon: how long that must hold, and how long it must be over before the cordon goes")
	set.StringVar(&text.most, "max-cordoned", "25%", "for cordon: so many of the GPU nodes, at most, are cordoned for their GPUs: 3, or 25% (at least 1)")
	set.StringVar(&f.LeaseNamespace, "namespace", "", "for cordon: the namespace of its Lease (default: its own)")
	return text
}

func (c *cordonText) into(f *Flags) error {
	var err error
	if f.Cordon.Threshold, err = cordon.ParseAmount(c.threshold); err != nil {
		return fmt.Errorf("--threshold=%s: %w", c.threshold, err)
	}
	if f.Cordon.MaxCordoned, err = cordon.ParseAmount(c.most); err != nil {
		return fmt.Errorf("--max-cordoned=%s: %w", c.most, err)
	}
	if f.Cordon.Wait, err = time.ParseDuration(c.wait); err != nil || f.Cordon.Wait < 0 {
		return fmt.Errorf("--wait=%s: it is a duration from 0s on, such as 90s or 5m", c.wait)
	}
	if faults := validation.IsDNS1123Label(f.LeaseNamespace); f.set["namespace"] && len(faults) > 0 {
		return fmt.Errorf("--namespace=%s: %s", f.LeaseNamespace, strings.Join(faults, "; "))
	}
	return nil
}

func runCordon(ctx context.Context, f *Flags, s Streams) int {
	ctx = daemon.WithLogger(ctx, s.Err, f.LogFormat, f.Verbosity)
	ctx, stop := daemon.WithSignals(ctx)
	defer stop()
	controller, err := f.cordonController()
	if err != nil {
		return fail(s, f, "cordon", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return daemon.Serve(ctx, f.Listen, daemon.Endpoints{Ready: controller.Ready, Status: func() any { return controller.Status() }})
	})
	group.Go(func() error { return controller.Run(ctx) })
	if err := group.Wait(); err != nil {
		klog.FromContext(ctx).Error(err, "Ended")
		return failed
	}
	return ok
}

func (f *Flags) cordonController() (*cordon.Controller, error) {
	config, err := f.apiServer()
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w; outside of a cluster --kubeconfig=FILE says how", err)
	}
	client, err := clientFor(config)
	if err != nil {
		return nil, err
	}
	namespace := f.LeaseNamespace
	if namespace == "" {
		if namespace, err = f.namespace(); err != nil {
			return nil, err
		}
	}
	if namespace == "" {
		return nil, errors.New("--namespace is needed: there is no namespace to be in")
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find a name for this process: %w", err)
	}
	return cordon.New(client, cordon.Options{
		Settings: f.Cordon, Namespace: namespace, Identity: host + "_" + string(uuid.NewUUID()),
	}), nil
}
