// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package dra

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
)

// What opaque parameters for this driver may be.
const (
	parametersVersion = "resource.nvidia.com/v1beta1"
	kindGPU           = "GpuConfig"
	kindMIG           = "MigDeviceConfig"
)

// ErrNotSupportedYet is wrapped by refusals of parameters that are valid and that this version cannot follow.
var ErrNotSupportedYet = errors.New("not supported yet")

var intervals = []string{"Default", "Short", "Medium", "Long"}

// validFields says what each kind may hold, for whoever mistyped it.
var validFields = map[string]string{
	kindGPU: "sharing.strategy, sharing.timeSlicingConfig.interval, sharing.mpsConfig",
	kindMIG: "sharing.strategy, sharing.mpsConfig",
}

// gpuParameters is the wire format of kind GpuConfig.
type gpuParameters struct {
	metav1.TypeMeta `json:",inline"`
	Sharing         *struct {
		Strategy    string `json:"strategy"`
		TimeSlicing *struct {
			Interval *string `json:"interval,omitempty"`
		} `json:"timeSlicingConfig,omitempty"`
		MPS *mpsParameters `json:"mpsConfig,omitempty"`
	} `json:"sharing,omitempty"`
}

// migParameters is the wire format of kind MigDeviceConfig: instances have no time slice of their own to set.
type migParameters struct {
	metav1.TypeMeta `json:",inline"`
	Sharing         *struct {
		Strategy string         `json:"strategy"`
		MPS      *mpsParameters `json:"mpsConfig,omitempty"`
	} `json:"sharing,omitempty"`
}

type mpsParameters struct {
	ThreadPercentage *int                         `json:"defaultActiveThreadPercentage,omitempty"`
	MemoryLimit      *resource.Quantity           `json:"defaultPinnedDeviceMemoryLimit,omitempty"`
	MemoryLimits     map[string]resource.Quantity `json:"defaultPerDevicePinnedMemoryLimit,omitempty"`
	MultiUser        *bool                        `json:"multiUser,omitempty"`
}

// setting is what parameters ask for; the zero value asks for nothing.
type setting struct {
	kind     string // kindGPU or kindMIG
	strategy string // "", "TimeSlicing" or "MPS"
	interval string // of a GPU's time slice; "" = none said
}

// parseParameters reads opaque parameters strictly: unknown and repeated fields are refused, with the valid ones.
func parseParameters(raw []byte) (setting, error) {
	var head metav1.TypeMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &head); err != nil {
		return setting{}, fmt.Errorf("parameters: %w", err)
	}
	if head.APIVersion != parametersVersion || head.Kind != kindGPU && head.Kind != kindMIG {
		return setting{}, fmt.Errorf("parameters of apiVersion %q, kind %q: valid are %s and %s of %s",
			head.APIVersion, head.Kind, kindGPU, kindMIG, parametersVersion)
	}
	s, err := parseKind(head.Kind, raw)
	if err != nil {
		return setting{}, fmt.Errorf("%s: %w", head.Kind, err)
	}
	return s, nil
}

func parseKind(kind string, raw []byte) (setting, error) {
	s := setting{kind: kind}
	if kind == kindMIG {
		var p migParameters
		if err := decodeStrictly(raw, &p, kind); err != nil || p.Sharing == nil {
			return s, err
		}
		s.strategy = p.Sharing.Strategy
		return s, s.check(p.Sharing.MPS != nil)
	}
	var p gpuParameters
	if err := decodeStrictly(raw, &p, kind); err != nil || p.Sharing == nil {
		return s, err
	}
	s.strategy = p.Sharing.Strategy
	if ts := p.Sharing.TimeSlicing; ts != nil {
		s.interval = intervals[0]
		if ts.Interval != nil {
			s.interval = *ts.Interval
		}
	}
	return s, errors.Join(s.check(p.Sharing.MPS != nil), s.checkInterval(p.Sharing.TimeSlicing != nil))
}

func decodeStrictly(raw []byte, into any, kind string) error {
	strict, err := kjson.UnmarshalStrict(raw, into)
	if err == nil && len(strict) > 0 {
		err = fmt.Errorf("strict decoding error: %w; valid fields are %s", errors.Join(strict...), validFields[kind])
	}
	return err
}

func (s setting) check(hasMPS bool) error {
	switch {
	case s.strategy != "TimeSlicing" && s.strategy != "MPS":
		return fmt.Errorf("sharing.strategy %q: valid are TimeSlicing, MPS", s.strategy)
	case hasMPS && s.strategy != "MPS":
		return fmt.Errorf("sharing.mpsConfig does not go with sharing.strategy %s", s.strategy)
	default:
		return nil
	}
}

func (s setting) checkInterval(said bool) error {
	switch {
	case !said:
		return nil
	case s.strategy == "MPS":
		return fmt.Errorf("sharing.timeSlicingConfig does not go with sharing.strategy %s", s.strategy)
	case !slices.Contains(intervals, s.interval):
		return fmt.Errorf("sharing.timeSlicingConfig.interval %q: valid are %s", s.interval, strings.Join(intervals, ", "))
	default:
		return nil
	}
}

// supported refuses what would have an effect: a GPU that one claim holds has the driver's default time slice already.
func (s setting) supported() error {
	switch {
	case s.strategy == "MPS":
		return fmt.Errorf("%s: sharing.strategy MPS: %w; TimeSlicing with interval Default is", s.kind, ErrNotSupportedYet)
	case s.interval != "" && s.interval != intervals[0]:
		return fmt.Errorf("%s: sharing.timeSlicingConfig.interval %s: %w; Default is", s.kind, s.interval, ErrNotSupportedYet)
	default:
		return nil
	}
}
