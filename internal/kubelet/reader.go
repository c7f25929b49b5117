// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"gpuslice/pkg/regular"
)

const (
	// callLimit bounds each question to the kubelet; it answers from memory.
	callLimit = 5 * time.Second
	// maxMessage bounds an answer; a node of 250 pods with 64 devices each needs less than 4 MiB.
	maxMessage = 16 << 20
	// checkpointFile is where the device manager keeps what it has allocated.
	checkpointFile = "device-plugins/kubelet_internal_checkpoint"
)

// Reader reads the records under one kubelet directory.
type Reader struct {
	dir         string
	foreignPIDs atomic.Bool
	resources   *grpc.ClientConn
	pods        *grpc.ClientConn
}

// NewReader connects lazily: the kubelet may come and go.
func NewReader(kubeletDir string) (*Reader, error) {
	r := &Reader{dir: kubeletDir}
	var err error
	if r.resources, err = r.connect("pod-resources/kubelet.sock"); err != nil {
		return nil, err
	}
	if r.pods, err = r.connect("pods-api/pods-api.sock"); err != nil {
		return nil, errors.Join(err, r.resources.Close())
	}
	return r, nil
}

// Close ends the connections.
func (r *Reader) Close() error { return errors.Join(r.resources.Close(), r.pods.Close()) }

func (r *Reader) connect(socket string) (*grpc.ClientConn, error) {
	path := filepath.Join(r.dir, socket)
	conn, err := grpc.NewClient("passthrough:///"+path,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
			if err == nil {
				r.foreignPIDs.Store(peerPID(c) == 0)
			}
			return c, err
		}))
	if err != nil {
		return nil, fmt.Errorf("connect %s: %w", path, err)
	}
	return conn, nil
}

// peerPID is the pid of the other side as our PID namespace sees it; 0 when it is outside, -1 when the kernel does not say.
func peerPID(c net.Conn) int {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return -1
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return -1
	}
	pid := -1
	err = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	if err != nil {
		return -1
	}
	return pid
}

// Read asks podresources first: its List makes the kubelet drop ended pods from its memory.
func (r *Reader) Read(ctx context.Context) (Record, error) {
	file := filepath.Join(r.dir, checkpointFile)
	if isMissing(filepath.Join(r.dir, "device-plugins")) && isMissing(filepath.Join(r.dir, "pod-resources")) {
		return Record{}, fmt.Errorf("%s is not a kubelet's directory: it has neither device-plugins nor pod-resources", r.dir)
	}
	if isMissing(filepath.Join(r.dir, "pod-resources/kubelet.sock")) && isMissing(file) {
		return Record{Absent: true}, nil
	}
	listed, err := r.list(ctx)
	if err != nil {
		return Record{}, fmt.Errorf("list pod resources: %w", err)
	}
	written, err := readCheckpoint(file)
	if err != nil {
		return Record{}, err
	}
	foreign, err := DevicePlugins(ctx, r.dir)
	if err != nil {
		return Record{}, err
	}
	return Record{
		Allocations: merge(listed, written, r.evidence(ctx)),
		ForeignPIDs: r.foreignPIDs.Load(),
		Foreign:     foreign,
	}, nil
}

func isMissing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// maxCheckpoint is far above what the longest lists that are accepted take.
const maxCheckpoint = 64 << 20

func readCheckpoint(path string) ([]checkpointEntry, error) {
	text, err := regular.ReadFile(path, maxCheckpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read device manager checkpoint: %w", err)
	}
	return parseCheckpoint(text)
}

// Held lists the ids that a container holds, under whatever resource. The kubelet writes them to its checkpoint before it has the
// container made.
func (r *Reader) Held(podUID, container string) ([]string, error) {
	written, err := readCheckpoint(filepath.Join(r.dir, checkpointFile))
	return heldBy(written, podUID, container), err
}

func (r *Reader) list(ctx context.Context) ([]Allocation, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	answer, err := podresourcesv1.NewPodResourcesListerClient(r.resources).List(ctx, &podresourcesv1.ListPodResourcesRequest{})
	if err != nil {
		return nil, err
	}
	all := []Allocation{}
	for _, pod := range answer.GetPodResources() {
		for _, c := range pod.GetContainers() {
			holder := pod.GetNamespace() + "/" + pod.GetName() + "/" + c.GetName()
			for _, d := range c.GetDevices() {
				for _, id := range d.GetDeviceIds() {
					all = append(all, Allocation{Resource: d.GetResourceName(), ID: id, Holder: holder})
				}
			}
		}
	}
	return all, nil
}

// evidence tells whether a pod of the checkpoint is over: the pods API knows by phase, and a pod whose directory is gone
// has been cleaned up. Without either, nothing is over.
func (r *Reader) evidence(ctx context.Context) func(podUID string) bool {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	answer, err := podsv1alpha1.NewPodsClient(r.pods).ListPods(ctx, &podsv1alpha1.ListPodsRequest{})
	if err == nil {
		live := map[string]bool{}
		for _, raw := range answer.GetPods() {
			var pod corev1.Pod
			if pod.Unmarshal(raw) != nil {
				return func(string) bool { return false }
			}
			live[string(pod.UID)] = pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
		}
		return func(uid string) bool { return !live[uid] }
	}
	pods := filepath.Join(r.dir, "pods")
	if isMissing(pods) {
		return func(string) bool { return false }
	}
	return func(uid string) bool { return isMissing(filepath.Join(pods, filepath.Base(uid))) }
}
