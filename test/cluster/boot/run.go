// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpuslice/test/cluster/image"
	"gpuslice/test/cluster/node"
)

// startLimit bounds each step of the start. An idle machine takes a few seconds for all of them.
const startLimit = 2 * time.Minute

// Run brings the node up in the caller's namespaces, calls work with a context that ends when a program of the node dies, and kills
// the programs. The error is the dead program's, or else work's. The caller's process must exit afterwards.
func Run(ctx context.Context, s Settings, progress io.Writer, work func(context.Context) error) error {
	start := time.Now()
	programs, err := prepare(ctx, s)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	supervisor := newSupervisor(group, programs, clusterDir)
	endControl, err := serveControl(group, clusterDir, supervisor)
	if err != nil {
		return err
	}
	err = bringUp(ctx, supervisor)
	if err == nil {
		fmt.Fprintf(progress, "node %s is Ready after %.1f s\n", node.Name, time.Since(start).Seconds())
		err = work(ctx)
	}
	err = errors.Join(err, endControl(), supervisor.kill())
	if died := group.Wait(); died != nil {
		return died
	}
	return err
}

// prepare makes everything that needs no running program.
func prepare(ctx context.Context, s Settings) (map[string]program, error) {
	contents, err := files(s, time.Now())
	if err != nil {
		return nil, err
	}
	programs, err := programs(s)
	if err != nil {
		return nil, err
	}
	if err := isolate(); err != nil {
		return nil, err
	}
	if err := connect(ctx); err != nil {
		return nil, err
	}
	roots, err := mountedHierarchies()
	if err != nil {
		return nil, err
	}
	if err := createCgroup(roots, s.Cgroup); err != nil {
		return nil, err
	}
	return programs, writeFiles(s, contents)
}

// bringUp starts the programs in their order and returns when a pod can be created and would run.
func bringUp(ctx context.Context, board switchboard) error {
	n, err := startControlPlaneAndRuntime(ctx, board)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := board.start("kubelet"); err != nil {
		return err
	}
	if err := node.Until(ctx, startLimit, "the node", func(ctx context.Context) error { return n.Ready(ctx, start) }); err != nil {
		return err
	}
	return node.Until(ctx, startLimit, "the default service account", func(ctx context.Context) error {
		_, err := n.Client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

func startControlPlaneAndRuntime(ctx context.Context, board switchboard) (*node.Node, error) {
	n, err := node.Open(clusterDir)
	if err != nil {
		return nil, err
	}
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return startControlPlane(ctx, board, n) })
	both.Go(func() error { return startRuntime(ctx, board, n) })
	return n, both.Wait()
}

func startControlPlane(ctx context.Context, board switchboard, n *node.Node) error {
	if err := board.start("etcd"); err != nil {
		return err
	}
	if err := node.Until(ctx, startLimit, "etcd", etcdHealth); err != nil {
		return err
	}
	if err := board.start("kube-apiserver"); err != nil {
		return err
	}
	if err := node.Until(ctx, startLimit, "kube-apiserver", func(ctx context.Context) error { return apiReadiness(ctx, n) }); err != nil {
		return err
	}
	return errors.Join(board.start("kube-controller-manager"), board.start("kube-scheduler"))
}

func etcdHealth(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, etcdAddress+"/health", nil)
	if err != nil {
		return fmt.Errorf("ask etcd: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask etcd: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd answers %s", response.Status)
	}
	return nil
}

func apiReadiness(ctx context.Context, n *node.Node) error {
	var code int
	result := n.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).StatusCode(&code)
	if code != 0 && code != http.StatusOK {
		// The body lists some fifty checks; what fails is in the log.
		return fmt.Errorf("its /readyz answers %d", code)
	}
	return result.Error()
}

// startRuntime also imports the images that every cluster has.
func startRuntime(ctx context.Context, board switchboard, n *node.Node) error {
	if err := board.start("containerd"); err != nil {
		return err
	}
	err := node.Until(ctx, startLimit, "containerd", func(ctx context.Context) error {
		connection, err := new(net.Dialer).DialContext(ctx, "unix", node.ContainerdSocket)
		if err != nil {
			return err
		}
		return connection.Close()
	})
	if err != nil {
		return err
	}
	pause, err := image.Pause()
	if err != nil {
		return err
	}
	busybox, err := image.Busybox(image.BusyboxName)
	if err != nil {
		return err
	}
	for _, img := range []image.Image{pause, busybox} {
		if err := n.ImportImage(ctx, img); err != nil {
			return err
		}
	}
	return nil
}
