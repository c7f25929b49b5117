// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpuslice/internal/agent"
	"gpuslice/internal/dra"
)

// SlicesCommand prints the ResourceSlices that the agent would publish.
func SlicesCommand() Command {
	return Command{Name: "slices", Summary: "print the ResourceSlices it would publish", Run: runSlices}
}

func runSlices(ctx context.Context, f *Flags, s Streams) int {
	view, err := f.preview(ctx)
	if err != nil {
		return fail(s, f, "slices", err)
	}
	for _, p := range view.Problems {
		say(s.Err, fmt.Errorf("warning: %s", p))
	}
	objects := dra.Objects(dra.Pool(dra.Slices(&view, f.pcieRoots())), cmp.Or(f.NodeName, "node"))
	if f.Output == "text" {
		printSlices(s, objects)
		return ok
	}
	return write(s, f, "slices", resourceapi.ResourceSliceList{
		TypeMeta: metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceSliceList"},
		Items:    objects,
	})
}

// preview reads what there is and changes nothing: the view is the one after every plan that can run.
func (f *Flags) preview(ctx context.Context) (agent.View, error) {
	c, err := f.loadConfig()
	if err != nil {
		return agent.View{}, err
	}
	hw, err := f.hardware()
	if err != nil {
		return agent.View{}, err
	}
	node, err := hw.Snapshot(ctx)
	if err != nil {
		return agent.View{}, err
	}
	usage, err := f.usage(ctx, hw, node)
	if err != nil {
		return agent.View{}, err
	}
	opts := agent.Options{NodeName: f.NodeName, APIs: f.APIs}
	return agent.Preview(agent.Offline(c, f.NodeLabels, node), opts, f.NodeLabels, node, usage), hw.Close(ctx)
}

// pcieRoots reads this machine's sysfs, which knows nothing of GPUs that exist in memory only unless it is told to.
func (f *Flags) pcieRoots() dra.PCIeRoots {
	if f.Hardware != "nvml" && !f.set["sys-root"] {
		return nil
	}
	return dra.SysfsRoots(f.SysRoot)
}

func printSlices(s Streams, objects []resourceapi.ResourceSlice) {
	devices := 0
	for i, o := range objects {
		for _, d := range o.Spec.Devices {
			devices++
			fmt.Fprintf(s.Out, "slice %d: %s\n", i, deviceLine(d))
		}
	}
	fmt.Fprintf(s.Out, "%d slices, %d devices of driver %s, pool %s\n", len(objects), devices, dra.DriverName, objects[0].Spec.Pool.Name)
}

// deviceLine prints what people select by.
func deviceLine(d resourceapi.Device) string {
	parts := []string{d.Name}
	for _, name := range []resourceapi.QualifiedName{"type", "profile", "uuid", "productName"} {
		if a, ok := d.Attributes[name]; ok && a.StringValue != nil {
			parts = append(parts, fmt.Sprintf("%s=%q", name, *a.StringValue))
		}
	}
	if m, ok := d.Capacity["memory"]; ok {
		parts = append(parts, "memory="+m.Value.String())
	}
	for _, t := range d.Taints {
		parts = append(parts, fmt.Sprintf("taint=%s:%s", t.Key, t.Effect))
	}
	return strings.Join(parts, " ")
}
