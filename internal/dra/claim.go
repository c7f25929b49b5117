// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package dra

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"gpuslice/internal/state"
	"gpuslice/pkg/cdi"
)

// order is what one claim asks of this node.
type order struct {
	claim   state.Claim
	results []resourceapi.DeviceRequestAllocationResult // of our driver and pool, in the claim's order
}

// readClaim picks what concerns this node and checks the parameters that come with it. It is pure.
func readClaim(c *resourceapi.ResourceClaim, pool string) (order, error) {
	o := order{claim: state.Claim{UID: string(c.UID), Namespace: c.Namespace, Name: c.Name}}
	if c.Status.Allocation == nil {
		return order{}, fmt.Errorf("claim %s is not allocated", o.claim)
	}
	allocated := c.Status.Allocation.Devices
	for _, r := range allocated.Results {
		if r.Driver != DriverName || r.Pool != pool {
			continue
		}
		o.results = append(o.results, r)
		o.claim.Devices = append(o.claim.Devices, state.Device{
			Request: r.Request, Pool: r.Pool, Name: r.Device, Admin: r.AdminAccess != nil && *r.AdminAccess,
		})
	}
	if len(o.results) == 0 {
		return order{}, fmt.Errorf("claim %s: none of its devices is of driver %s and pool %s", o.claim, DriverName, pool)
	}
	given, err := readParameters(allocated.Config)
	if err != nil {
		return order{}, fmt.Errorf("claim %s: %w", o.claim, err)
	}
	for _, r := range o.results {
		s, err := settingFor(r, given)
		if err == nil {
			err = s.supported()
		}
		if err != nil {
			return order{}, fmt.Errorf("claim %s: request %s: %w", o.claim, r.Request, err)
		}
	}
	return o, nil
}

// names lists the devices, one for each result.
func (o order) names() []string {
	names := make([]string, len(o.results))
	for i, r := range o.results {
		names[i] = r.Device
	}
	return names
}

// answer tells the kubelet one CDI device for each result. It depends on the claim alone, so it is the same when repeated (P6).
func (o order) answer() []kubeletplugin.Device {
	list := make([]kubeletplugin.Device, len(o.results))
	for i, r := range o.results {
		list[i] = kubeletplugin.Device{
			Requests:     []string{r.Request},
			PoolName:     r.Pool,
			DeviceName:   r.Device,
			CDIDeviceIDs: []string{cdi.Qualified(cdi.ClaimKind, cdi.ClaimDevice(o.claim.UID, r.Device))},
			ShareID:      r.ShareID,
		}
	}
	return list
}

// given is one entry of parameters that came with a claim.
type given struct {
	from resourceapi.DeviceAllocationConfiguration
	setting
}

// readParameters reads every entry for our driver, so that a mistake is seen where it was made; those of others are theirs.
func readParameters(list []resourceapi.DeviceAllocationConfiguration) ([]given, error) {
	all, errs := []given{}, []error{}
	for i, from := range list {
		if from.Opaque != nil && from.Opaque.Driver != DriverName {
			continue
		}
		s, err := setting{}, errors.New("neither opaque nor known")
		if from.Opaque != nil {
			s, err = parseParameters(from.Opaque.Parameters.Raw)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("config %d (%s): %w", i, from.Source, err))
			continue
		}
		all = append(all, given{from: from, setting: s})
	}
	return all, errors.Join(errs...)
}

// settingFor finds what applies to a result: the last entry wins, and entries of the class come before those of the claim.
// An entry for every request, or for the parent of alternatives, applies where its kind fits; one that names a request must.
func settingFor(r resourceapi.DeviceRequestAllocationResult, all []given) (setting, error) {
	kind, is := kindGPU, typeGPU
	if isMIG(r.Device) {
		kind, is = kindMIG, typeMIG
	}
	last := setting{kind: kind}
	for _, g := range all {
		applies := len(resourceclaim.ConfigForResult([]resourceapi.DeviceAllocationConfiguration{g.from}, r)) > 0
		switch {
		case !applies:
		case g.kind == kind:
			last = g.setting
		case slices.Contains(g.from.Requests, r.Request):
			return setting{}, fmt.Errorf("cannot apply %s to device %s of type %s", g.kind, r.Device, is)
		}
	}
	return last, nil
}

// isMIG tells by name, which is part of the wire format.
func isMIG(device string) bool { return strings.Contains(device, "-mig-") }
