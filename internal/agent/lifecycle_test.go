// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent_test

import (
	"testing"

	"gpuslice/internal/agent"
	"gpuslice/pkg/devices/sim"
)

// What others made on a managed, idle GPU is adopted where it matches and replaced only as far as the plan says (P8).
func TestForeignInstancesAreAdopted(t *testing.T) {
	n := newNode(t, "gpus:\n- {model: h100-sxm5-80gb, instances: [3g.40gb@4, 2g.20gb@0, 1g.10gb@2]}\n")
	adopted, kept := n.uuid(0, "3g.40gb@4"), n.uuid(0, "1g.10gb@2")
	n.apply(layout("{mig: {instances: {3g.40gb: 1, 1g.10gb: 3}}}"))
	n.cut("gpu-0 h100-sxm5-80gb mig=on [1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4]")
	if n.uuid(0, "3g.40gb@4") != adopted || n.uuid(0, "1g.10gb@2") != kept {
		t.Error("an instance that matched was made again")
	}
	if n.destroys("3g.40gb@4")+n.destroys("1g.10gb@2") > 0 {
		t.Error("a destroy was tried on an instance that matched")
	}
	n.noProblems()
}

// An instance without compute instance, which an earlier tool left, is cleaned on a managed GPU and left alone on another.
func TestOrphanInstances(t *testing.T) {
	machine := "gpus:\n- {model: h100-sxm5-80gb, instances: ['3g.40gb@4{}', 1g.10gb@0]}\n"
	n := newNode(t, machine)
	n.converge()
	n.problem(agent.ReasonPartialInstance, "3g.40gb@4 is withheld: it has no compute instance")
	n.offers("mig-1g.10gb=1")
	n.apply(layout("{mig: {slots: [3g.40gb@4, 1g.10gb@0]}}"))
	n.offers("mig-1g.10gb=1 mig-3g.40gb=1")
	n.noProblems()
}

// Boards of one model whose drivers call profiles otherwise, or whose profiles have other ids, are each cut by their own table.
func TestTwoGPUsOfOneModelThatDiffer(t *testing.T) {
	n := newNode(t, "gpus:\n- {model: h100-sxm5-80gb}\n- {model: h100-sxm5-80gb, profiles: {19: {name: 1g.11gb, memoryMiB: 10800}}}\n")
	n.apply(layout("{mig: {fill: 1g}}"))
	n.offers("mig-1g.10gb=7 mig-1g.11gb=7")
	n.noProblems()
	n.apply(layout("{mig: {instances: {1g.10gb: 7}}}"))
	n.offers("mig-1g.10gb=7 mig-1g.11gb=7")
	n.problem(agent.ReasonAlias, "1g.11gb")
}

// Several models in one node follow one layout, each in its own sizes; what has no MIG keeps what it has and says so.
func TestMixedModels(t *testing.T) {
	n := newNode(t, "1xa30-24gb,1xrtx-pro-6000-blackwell-se-96gb,1xh100-sxm5-80gb,1xl40s")
	n.apply(resettable("0-3", "{mig: {fill: 1g}}", "when-idle"))
	n.problem(agent.ReasonImpossible, "gpu-3")
	n.offers("gpu=1 mig-1g.10gb=7 mig-1g.24gb=4 mig-1g.6gb=4")
}

// A driver upgrade calls the profiles otherwise: the instances are the same ones, nothing is made again, the old name in the
// config is taken with a warning, and the resources have the driver's new names.
func TestDriverUpgradeRenamesProfiles(t *testing.T) {
	n := newNode(t, "1xh100-sxm5-80gb")
	n.apply(layout("{mig: {instances: {1g.10gb: 2}}}"))
	n.offers("mig-1g.10gb=2")
	old := n.machine
	upgraded, err := sim.ParseYAML([]byte("gpus:\n- {model: h100-sxm5-80gb, instances: [1g.11gb@5, 1g.11gb@6], " +
		"profiles: {19: {name: 1g.11gb, memoryMiB: 10800}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(upgraded.Close)
	layoutBefore := old.GPUs()[0].Instances
	n.machine = upgraded
	n.start()
	n.converge()
	n.offers("mig-1g.11gb=2")
	n.problem(agent.ReasonAlias, "1g.11gb")
	if log := upgraded.Log(); len(log) > 0 {
		t.Errorf("changed by the upgrade: %v (before: %v)", log, layoutBefore)
	}
}
