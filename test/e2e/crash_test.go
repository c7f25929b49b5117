// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/testing/protocmp"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"

	"gpuslice/test/cluster/node"
	"gpuslice/test/crash/killer"
	"gpuslice/test/stage"
)

func TestMain(m *testing.M) {
	killer.Main()
	if len(os.Args) == 4 && os.Args[1] == holdRole {
		if err := hold(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const stateFolder = "/var/lib/gpuslice"

// killing is a claim that is prepared and unprepared by hand, by an agent that is killed in every step of it.
type killing struct {
	*scene
	claim  *drapb.Claim
	armed  string // while this file exists, effects count
	empty  []string
	full   []string // files while the claim is prepared
	answer *drapb.NodePrepareResourceResponse
	dump   string
}

// P6: SIGKILL before and after every effect of Prepare and of Unprepare: the answer is the same again, or all is undone.
func TestClaimSurvivesKills(t *testing.T) {
	k := beginKilling(t)
	for _, prepared := range []bool{false, true} {
		for _, late := range []bool{false, true} {
			points := 0
			for k.killedAt(points+1, late, prepared) {
				points++
			}
			t.Logf("%d points (after the effect: %v, of Unprepare: %v)", points, late, prepared)
			if least := map[bool]int{false: 5, true: 3}[prepared]; points < least {
				t.Errorf("only %d effects were met, of at least %d; the trace has lost its subject", points, least)
			}
		}
	}
	if diff := cmp.Diff(k.dump, k.identities()); diff != "" {
		t.Errorf("machine (-before +now):\n%s", diff)
	}
	k.untouched("3g.40gb@0")
}

func beginKilling(t *testing.T) *killing {
	t.Helper()
	k := &killing{
		scene: begin(t, "1xh100-sxm5-80gb", strings.Replace(sliced, "layout: it", "layout: it, serve: dra", 1)),
		armed: filepath.Join(t.TempDir(), "armed"),
	}
	k.must(k.DeviceClasses(t.Context(), filepath.Join(os.Getenv("GPUSLICE_ROOT"), "deployments/deviceclasses")))
	k.published("gpu-0-mig-3g40gb-9-0")
	k.allocate("big", "gpu-0-mig-3g40gb-9-0")
	k.empty, k.dump = k.files(), k.identities()
	var err error
	k.answer, err = k.prepare()
	k.must(err)
	if len(k.answer.GetDevices()) != 1 {
		t.Fatalf("answer %v", k.answer)
	}
	k.full = k.files()
	if len(k.full) != len(k.empty)+2 {
		t.Fatalf("an intent and a spec were expected: %q, before %q", k.full, k.empty)
	}
	k.must(k.unprepare())
	k.leaves("nothing", k.empty)
	k.must(k.KillAgent(t.Context()))
	return k
}

// allocate does the scheduler's part by hand.
func (k *killing) allocate(name, device string) {
	k.t.Helper()
	k.must(k.Claim(k.t.Context(), name, "mig.nvidia.com", ""))
	api := k.Client.ResourceV1().ResourceClaims(stage.Namespace)
	c, err := api.Get(k.t.Context(), name, metav1.GetOptions{})
	k.must(err)
	c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "gpu", Driver: "gpu.nvidia.com", Pool: node.Name, Device: device}},
	}}
	_, err = api.UpdateStatus(k.t.Context(), c, metav1.UpdateOptions{})
	k.must(err)
	k.claim = &drapb.Claim{Namespace: stage.Namespace, Name: name, Uid: string(c.UID)}
}

// killedAt says whether the call had as many effects. Before it, the agent shows that it got over the kill before.
func (k *killing) killedAt(nth int, late, prepared bool) bool {
	k.t.Helper()
	through, err := killer.Point{Nth: nth, After: late, Armed: k.armed, Under: stateFolder + ":" + node.CDIDir}.Through()
	k.must(err)
	k.must(k.StartAgentIn(k.t.Context(), through))
	k.recovers(late)
	if prepared {
		k.repeats()
	}
	k.must(os.WriteFile(k.armed, nil, 0o600))
	if prepared {
		err = k.unprepare()
	} else {
		_, err = k.prepare()
	}
	k.must(os.Remove(k.armed))
	if err == nil {
		k.recovers(late)
		k.must(k.KillAgent(k.t.Context()))
		return false
	}
	k.within(soon, fmt.Sprintf("death %d: %v", nth, err), func(context.Context) error {
		if k.Alive() == nil {
			return errors.New("the agent lives")
		}
		return nil
	})
	k.must(k.KillAgent(k.t.Context())) // closes its log
	return true
}

// recovers wants all or nothing of the claim without anybody asking; then Prepare, repeated, gives the same answer, unless
// the pod has been deleted meanwhile; and Unprepare, repeated, leaves nothing.
func (k *killing) recovers(deleted bool) {
	k.t.Helper()
	k.within(soon, "all or nothing", func(context.Context) error {
		if got := k.files(); !slices.Equal(got, k.empty) && !slices.Equal(got, k.full) {
			return fmt.Errorf("files %q", got)
		}
		return nil
	})
	if !deleted {
		k.repeats()
	}
	k.must(k.unprepare())
	k.leaves("nothing", k.empty)
	k.must(k.unprepare())
}

func (k *killing) repeats() {
	k.t.Helper()
	again, err := k.prepare()
	k.must(err)
	if diff := cmp.Diff(k.answer, again, protocmp.Transform()); diff != "" {
		k.t.Fatalf("the answer (-first +again):\n%s", diff)
	}
	k.leaves("intent and spec", k.full)
}

func (k *killing) leaves(what string, want []string) {
	k.t.Helper()
	k.within(soon, what, func(context.Context) error {
		if diff := cmp.Diff(want, k.files()); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

// files lists what there is in the folders of state and specs, with the content of what is about claims.
func (k *killing) files() []string {
	k.t.Helper()
	found := []string{}
	for _, folder := range []string{stateFolder, node.CDIDir} {
		k.must(filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			var content []byte
			if k.claim != nil && strings.Contains(path, k.claim.GetUid()) {
				content, err = os.ReadFile(path)
			}
			if !errors.Is(err, fs.ErrNotExist) { // it was being written
				found = append(found, path+" "+string(content))
			}
			return nil
		}))
	}
	return found
}

func (k *killing) identities() string {
	return fmt.Sprintf("%+v", k.Driver.Machine().GPUs()[0].Instances)
}

// dra calls the agent as the kubelet does.
func (k *killing) dra(call func(drapb.DRAPluginClient) error) error {
	k.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+filepath.Join(node.KubeletDir, "plugins/gpu.nvidia.com/dra.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
	k.must(err)
	defer conn.Close()
	return call(drapb.NewDRAPluginClient(conn))
}

func (k *killing) prepare() (answer *drapb.NodePrepareResourceResponse, err error) {
	k.t.Helper()
	err = k.dra(func(c drapb.DRAPluginClient) error {
		all, err := c.NodePrepareResources(k.t.Context(), &drapb.NodePrepareResourcesRequest{Claims: []*drapb.Claim{k.claim}})
		if answer = all.GetClaims()[k.claim.GetUid()]; err == nil && answer.GetError() != "" {
			k.t.Fatal(answer.GetError())
		}
		return err
	})
	return answer, err
}

func (k *killing) unprepare() error {
	k.t.Helper()
	return k.dra(func(c drapb.DRAPluginClient) error {
		all, err := c.NodeUnprepareResources(k.t.Context(), &drapb.NodeUnprepareResourcesRequest{Claims: []*drapb.Claim{k.claim}})
		if why := all.GetClaims()[k.claim.GetUid()].GetError(); why != "" {
			k.t.Fatal(why)
		}
		return err
	})
}
