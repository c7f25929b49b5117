// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package dra_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	resourceapi "k8s.io/api/resource/v1"
	drahealth "k8s.io/kubelet/pkg/apis/dra-health/v1"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// fakeKubelet speaks the kubelet's side over the real sockets.
type fakeKubelet struct {
	t      *testing.T
	reg    registration.RegistrationClient
	dra    drapb.DRAPluginClient
	health drahealth.DRAResourceHealthClient
}

// register does what a kubelet does when it finds the registration socket.
func register(t *testing.T, kubeletDir string) *fakeKubelet {
	t.Helper()
	k := &fakeKubelet{t: t}
	path := filepath.Join(kubeletDir, "plugins_registry", "gpu.nvidia.com-reg.sock")
	eventually(t, "the registration socket is there", func() bool { _, err := os.Stat(path); return err == nil })
	k.reg = registration.NewRegistrationClient(dial(t, path))
	var info *registration.PluginInfo
	eventually(t, "the registration socket answers", func() (ok bool) {
		got, err := k.reg.GetInfo(t.Context(), &registration.InfoRequest{})
		info = got
		return err == nil
	})
	if info.Type != registration.DRAPlugin || info.Name != "gpu.nvidia.com" || !slices.Contains(info.SupportedVersions, drapb.DRAPluginService) {
		t.Fatalf("registers as %v", info)
	}
	conn := dial(t, info.Endpoint)
	k.dra, k.health = drapb.NewDRAPluginClient(conn), drahealth.NewDRAResourceHealthClient(conn)
	k.notify()
	return k
}

func (k *fakeKubelet) notify() {
	k.t.Helper()
	if _, err := k.reg.NotifyRegistrationStatus(k.t.Context(), &registration.RegistrationStatus{PluginRegistered: true}); err != nil {
		k.t.Fatal(err)
	}
}

func dial(t *testing.T, path string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+path,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// ask calls NodePrepareResources for one claim.
func (k *fakeKubelet) ask(c *resourceapi.ResourceClaim) (*drapb.NodePrepareResourceResponse, error) {
	answer, err := k.dra.NodePrepareResources(k.t.Context(), &drapb.NodePrepareResourcesRequest{
		Claims: []*drapb.Claim{{Namespace: c.Namespace, Name: c.Name, Uid: string(c.UID)}},
	})
	return answer.GetClaims()[string(c.UID)], err
}

func (k *fakeKubelet) prepare(c *resourceapi.ResourceClaim) []*drapb.Device {
	k.t.Helper()
	answer, err := k.ask(c)
	if err != nil || answer == nil || answer.Error != "" {
		k.t.Fatalf("prepare %s: %v, %v", c.Name, answer, err)
	}
	return answer.Devices
}

// refused wants an error for that claim alone, with the text in it.
func (k *fakeKubelet) refused(c *resourceapi.ResourceClaim, text string) {
	k.t.Helper()
	answer, err := k.ask(c)
	if err != nil || answer == nil || !strings.Contains(answer.Error, text) || len(answer.Devices) > 0 {
		k.t.Errorf("prepare %s: got %v, %v, want a refusal with %q", c.Name, answer, err, text)
	}
}

func (k *fakeKubelet) unprepare(uid string) {
	k.t.Helper()
	answer, err := k.dra.NodeUnprepareResources(k.t.Context(), &drapb.NodeUnprepareResourcesRequest{
		Claims: []*drapb.Claim{{Namespace: "team-a", Name: uid, Uid: uid}},
	})
	if got, ok := answer.GetClaims()[uid]; err != nil || !ok || got.Error != "" {
		k.t.Errorf("unprepare %s: %v, %v", uid, answer, err)
	}
}
