// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

import (
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

// story is what the demo tells.
type story struct {
	Machine string `json:"machine"`
	Config  string `json:"config"`
	Busy    string `json:"busy"`   // resource of the pod that stays over the edit
	Shared  string `json:"shared"` // resource of two pods that share a GPU
	Claim   struct {
		Class    string `json:"class"`
		Selector string `json:"selector"`
	} `json:"claim"`
	Edit    string `json:"edit"`
	Mistake string `json:"mistake"`
	Refusal string `json:"refusal"` // part of the answer to the mistake
}

func load(path string) (story, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return story{}, err
	}
	var s story
	if err := yaml.UnmarshalStrict(text, &s); err != nil {
		return story{}, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// rules is a config as far as the demo reads it, on its own and not with the product's code: it computes what to expect.
type rules struct {
	Layouts map[string]struct {
		MIG struct {
			Instances map[string]int64 `json:"instances"`
		} `json:"mig"`
		TimeSlicing struct {
			Replicas int64 `json:"replicas"`
			Rename   any   `json:"rename"`
		} `json:"timeSlicing"`
	} `json:"layouts"`
	Nodes []struct {
		GPUs []struct {
			Select struct {
				Index int `json:"index"`
			} `json:"select"`
			Layout string `json:"layout"`
			Serve  string `json:"serve"`
		} `json:"gpus"`
	} `json:"nodes"`
}

// expected is what a config makes a node offer.
type expected struct {
	resources map[string]int64 // allocatable of the device plugin
	devices   []string         // names in ResourceSlices
	gpuOf     map[string]int   // which GPU a resource comes from
}

// expect follows a config by hand: one rule per GPU, each naming its index.
func expect(config string) (expected, error) {
	var r rules
	if err := yaml.Unmarshal([]byte(config), &r); err != nil {
		return expected{}, err
	}
	e := expected{resources: map[string]int64{}, gpuOf: map[string]int{}}
	for _, g := range r.Nodes[0].GPUs {
		l := r.Layouts[g.Layout]
		add := func(resource string, n int64) {
			e.resources[resource] += n
			e.gpuOf[resource] = g.Select.Index
		}
		switch {
		case g.Serve == "dra":
			e.devices = append(e.devices, fmt.Sprintf("gpu-%d", g.Select.Index))
		case len(l.MIG.Instances) > 0:
			for profile, n := range l.MIG.Instances {
				add("nvidia.com/mig-"+strings.ReplaceAll(profile, "+", "."), n)
			}
		case l.TimeSlicing.Replicas > 1:
			add(sharedName(l.TimeSlicing.Rename), l.TimeSlicing.Replicas)
		default:
			add("nvidia.com/gpu", 1)
		}
	}
	return e, nil
}

func sharedName(rename any) string {
	switch r := rename.(type) {
	case bool:
		if r {
			return "nvidia.com/gpu.shared"
		}
	case string:
		return "nvidia.com/" + r
	}
	return "nvidia.com/gpu"
}
