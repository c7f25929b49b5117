// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package health

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// defaults are the XIDs that are no application's, from section 12 of the design, which has them from NVIDIA's catalog.
var defaults = table(map[Class][]uint64{
	Information: {43, 44, 63, 92, 93, 121, 137, 141, 147, 148, 157, 160, 161},
	Reset: {
		46, 48, 62, 64, 74, 95, 109, 110, 119, 120, 136, 140, 143, 144, 145, 146, 149, 150, 155, 156, 158,
	},
	Reboot: {79, 151},
})

func table(classes map[Class][]uint64) map[uint64]Class {
	all := map[uint64]Class{}
	for class, xids := range classes {
		for _, xid := range xids {
			all[xid] = class
		}
	}
	return all
}

// overrideNames are the words of the configuration, from harmless to severe.
var overrideNames = []string{"ignore", "application", "reset", "reboot"}

// Policy says what XIDs mean. The zero value is the built-in table.
type Policy struct {
	overrides map[uint64]Class
}

// ParsePolicy reads overrides of the table: XID to ignore (only counted), application, reset or reboot.
func ParsePolicy(overrides map[string]string) (Policy, error) {
	p, errs := Policy{overrides: map[uint64]Class{}}, []error{}
	for _, key := range slices.Sorted(maps.Keys(overrides)) {
		xid, err := strconv.ParseUint(key, 10, 32)
		if err != nil {
			errs = append(errs, fmt.Errorf("XID %.40q is not a number from 0 to 4294967295", key))
			continue
		}
		i := slices.Index(overrideNames, overrides[key])
		if i < 0 {
			errs = append(errs, fmt.Errorf("XID %d: %.40q is not one of %s", xid, overrides[key], strings.Join(overrideNames, ", ")))
			continue
		}
		if before, twice := p.overrides[xid]; twice && before != Class(i) {
			errs = append(errs, fmt.Errorf("XID %d is there twice, as %s and as %s", xid, overrideNames[before], overrideNames[i]))
		}
		p.overrides[xid] = Class(i)
	}
	if len(errs) > 0 {
		return Policy{}, errors.Join(errs...)
	}
	return p, nil
}

// XID returns the class of an XID where the driver tells no recovery action.
func (p Policy) XID(xid uint64) Class {
	if class, ok := p.overrides[xid]; ok {
		return class
	}
	if class, ok := defaults[xid]; ok {
		return class
	}
	return Application
}

// Class returns what an observation demands.
//
// A recovery action decides over the table in both directions; none lowers to application and raises nothing. It only
// raises where somebody else has decided: what an admin overrides, a GPU that does not answer, a fault that others report.
func (p Policy) Class(o Observation) Class {
	table, decided := p.table(o)
	demand, known := o.Action.Class()
	switch {
	case !known:
		return table
	case o.Action == ActionNone && decided:
		return table
	case o.Action == ActionNone:
		return min(table, demand)
	case decided:
		return max(table, demand)
	default:
		return demand
	}
}

// table returns the class without a recovery action, and whether an action only raises it.
func (p Policy) table(o Observation) (class Class, decided bool) {
	switch o.Source {
	case XID:
		_, overridden := p.overrides[o.XID]
		return p.XID(o.XID), overridden
	case Recovery, RemapPending, Uncorrected, Throttle:
		return Information, false
	case RemapFailure:
		return Reset, false
	default: // Unreachable, Reported and what is no source: nobody says what would help
		return Reboot, true
	}
}
