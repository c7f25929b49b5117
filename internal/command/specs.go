// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"gpuslice/internal/agent"
	"gpuslice/internal/beat"
	"gpuslice/internal/containers"
	"gpuslice/pkg/cdi"
)

// followEvery is how often the driver's files are looked at: a container that starts between their replacement and the look
// after it finds a spec that names files which are gone.
const followEvery = 2 * time.Second

// keepSpecs brings the CDI specs up to the driver's files until ctx ends, and says what stands in the way.
func keepSpecs(ctx context.Context, w *cdi.Writer, a *agent.Agent) error {
	for first := true; ; first = false {
		changed, err := w.Follow()
		view, _ := a.View()
		a.SetProblems("cdi", specProblems(w.Files.Unusable(), err, view))
		if changed && !first {
			klog.FromContext(ctx).Info("The driver's files have changed; CDI specs name the new ones")
			a.Kick() // what could not be injected may be now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-beat.After(followEvery):
		}
	}
}

// specProblems is a pure function. Without a GPU nobody misses the driver's files, and NoDriver says where they were looked for.
func specProblems(unusable, follow error, view *agent.View) []agent.Problem {
	switch {
	case unusable != nil:
		return []agent.Problem{{Reason: agent.ReasonCDIDirUnusable, Message: unusable.Error() + "; --cdi-dir names it"}}
	case follow != nil && view != nil && len(view.Node.GPUs) > 0:
		return []agent.Problem{{Reason: agent.ReasonDriverFiles, Message: follow.Error() + "; CDI specs stay as they are"}}
	}
	return nil
}

// injection is how devices of the device plugin get into containers. Hardware that exists in memory only gets into none.
func (f *Flags) injection(client kubernetes.Interface) *agent.CDI {
	if f.Strategy == "envvar" || !slices.Contains(f.APIs, agent.DevicePlugin) || strings.HasPrefix(f.Hardware, "sim:") {
		return nil
	}
	how := &agent.CDI{Dir: f.CDIDir}
	if client != nil {
		how.Containers = containers.Finder{Client: client, Proc: "/proc"} // of our own PID namespace, wherever the driver's part is mounted
	}
	return how
}

func envInjection() agent.Problem {
	return agent.Problem{Reason: agent.ReasonEnvInjectionOpen, Message: "with --device-list-strategy=envvar the runtime obeys the environment: " +
		"a pod that sets NVIDIA_VISIBLE_DEVICES=all, or whose image does, sees every GPU of this node without asking for one"}
}
