// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpuslice/internal/config"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/health"
	"gpuslice/pkg/mig"
)

// Target is what shall become of one GPU and how.
type Target struct {
	GPU    devices.GPU
	Policy config.Policy // what is in force
	Paused bool          // nothing is changed: the plan is shown and not carried out
	Kept   bool          // the GPU cannot follow its entry and is left as it was
	ByMIG  bool          // a config of mig-parted's says how it is cut
	Plan   mig.Plan
	Memory Memory // what its shares can be held to
	Health health.State
	// AccessLost says that no GPU of the node answers, which is not this one's fault.
	AccessLost bool
	Problems   []Problem
}

// Compile turns the config into a target for each GPU. It is pure: hardware is read before and changed after.
func Compile(c Config, node string, labels map[string]string, n devices.Node, u Usage) []Target {
	rule, _ := c.ForNode(node, labels)
	targets := make([]Target, len(n.GPUs))
	for i, g := range n.GPUs {
		targets[i] = Target{GPU: g, Plan: mig.Plan{GPU: g.Name()}, Health: u.Health[g.UUID], AccessLost: u.AccessLost, Paused: rule.Node.Paused}
		if (g.Fault == nil || g.UUID != "") && g.Unsupported == nil {
			targets[i].follow(c, rule, u)
		}
		targets[i].find(g)
		targets[i].findSick(u.Failures[g.UUID])
	}
	limitLists(targets, u)
	return targets
}

// find adds what is wrong with the GPU itself.
func (t *Target) find(g devices.GPU) {
	if g.Unsupported != nil {
		t.problem(ReasonPlatform, "%v", g.Unsupported)
	}
	if g.Fault != nil && !t.AccessLost {
		t.problem(ReasonGPUFault, "%v", g.Fault)
	}
	if g.Released != "" && g.Released != letGoWord {
		t.problem(ReasonReleased, "released: %s; it is neither read nor changed, and nothing new is given out on it", g.Released)
	}
	for _, inst := range g.MIG.Instances {
		switch {
		case t.removes(inst): // which is the end of it
		case inst.Partial:
			t.problem(ReasonPartialInstance, "%s is withheld: its compute instances are smaller than itself", inst.Slot)
		case !inst.Usable():
			t.problem(ReasonPartialInstance, "%s is withheld: it has no compute instance", inst.Slot)
		}
	}
}

// removes says that the plan, which can run, takes an instance away.
func (t *Target) removes(inst mig.Instance) bool {
	return t.Plan.Runnable() && slices.ContainsFunc(t.Plan.Removes(), func(r mig.Instance) bool { return r.GI == inst.GI })
}

func (t *Target) problem(r Reason, format string, args ...any) {
	t.Problems = append(t.Problems, Problem{GPU: t.GPU.Name(), Reason: r, Message: fmt.Sprintf(format, args...)})
}

// follow finds the policy of the GPU: that of the SharingConfig, or else that of NVIDIA's configs.
func (t *Target) follow(c Config, rule config.NodeRule, u Usage) {
	policy, err := rule.ForGPU(factsOf(t.GPU)), error(nil)
	if !policy.Managed {
		policy, t.ByMIG, err = c.imported(t.GPU)
	}
	switch missing := unsupported(policy); {
	case err != nil:
		t.problem(ReasonImpossible, "%s: %v", policy.Rule, err)
		t.keep(policy, u)
	case !policy.Managed:
	case len(missing) > 0:
		t.problem(ReasonNotSupportedYet, "layout %s: %s not supported yet; the GPU keeps what it has", policy.LayoutName, strings.Join(missing, ", "))
		t.keep(policy, u)
	default:
		t.aim(policy, u)
	}
}

// aim plans how the GPU gets to what the policy says of it.
func (t *Target) aim(policy config.Policy, u Usage) {
	g, used := t.GPU, u.of(t.GPU)
	want, warnings, err := wantOf(g, policy.Layout, used)
	shares, renamed, errShares := sharesOn(g, policy)
	for _, w := range slices.Concat(warnings, renamed) {
		t.problem(ReasonAlias, "%s", w)
	}
	if err := errors.Join(err, errShares); err != nil {
		t.problem(ReasonImpossible, "layout %s: %v", policy.LayoutName, err)
		t.keep(policy, u)
		return
	}
	policy.Shares = shares
	t.Policy = policy
	if policy.AsFound() || g.Fault != nil || g.Released != "" {
		return
	}
	failed := u.Before.FailedResets[g.UUID]
	want.MayAsk = policy.Reset == "when-idle"
	want.MayReset = want.MayAsk && failed == ""
	t.Plan = mig.Diff(g.MIG, want, used)
	t.explain(want, failed)
}

// explain says what keeps the plan from being carried out.
func (t *Target) explain(want mig.Want, failed string) {
	if t.Paused && !t.Plan.IsEmpty() {
		t.problem(ReasonPaused, "%s", t.Plan)
	}
	for _, b := range t.Plan.Blocked {
		t.problem(ReasonBlocked, "%s", b)
	}
	switch mode := t.GPU.MIG.Mode; {
	case t.Plan.NeedsReset:
		t.needsReset(t.Policy.Reset, failed)
	case mode.Current == want.MIG && mode.Pending != want.MIG && !t.Plan.ChangesMode():
		t.problem(ReasonModePending, "somebody has set mig=%s, which the next reset or reboot makes come true, and reset is %s", onOff(mode.Pending), t.Policy.Reset)
	}
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// needsReset says what brings a GPU into the wanted mode when a reset by this agent does not.
func (t *Target) needsReset(policy, failed string) {
	switch mode := t.GPU.MIG.Mode; {
	case failed != "":
		t.problem(ReasonRebootRequired, "the MIG mode did not change with a reset, a reboot of the node is needed: %s", failed)
	case mode.Pending != mode.Current:
		t.problem(ReasonRebootRequired, "the MIG mode that is set takes effect with a reset of this GPU or a reboot of the node, and reset is %s", policy)
	default:
		t.problem(ReasonResetRequired, "the MIG mode of this GPU changes with a reset only, and reset is %s; when-idle lets the agent reset it once nobody uses it", policy)
	}
}

// keep leaves a GPU as it was when it cannot follow its entry: under the policy that was in force, or, when none was, as it
// is, through the API that the entry names.
func (t *Target) keep(wish config.Policy, u Usage) {
	before, known := u.Before.Policies[t.GPU.PCI]
	if !known {
		before = config.Policy{Managed: true, Serve: wish.Serve, Reset: wish.Reset, Rule: wish.Rule}
	}
	t.Policy, t.Kept = before, true
}

// unsupported lists what of a policy this version cannot do.
func unsupported(p config.Policy) []string {
	missing := []string{}
	add := func(is bool, what string) {
		if is {
			missing = append(missing, what)
		}
	}
	add(p.Layout.MIG != nil && p.Layout.MIG.Dynamic, "dynamic MIG")
	if ts := p.Layout.TimeSlicing; ts != nil {
		add(ts.Shares() && p.Serve == "dra", "time slicing through DRA")
	}
	return missing
}
