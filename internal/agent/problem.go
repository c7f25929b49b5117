// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"cmp"
	"slices"
)

// Reason is the stable name of a kind of Problem.
type Reason string

// The reasons; internal/report documents each.
const (
	ReasonConfigInvalid     Reason = "ConfigInvalid"        // refused as a whole, the last good one stays
	ReasonConfigNotKept     Reason = "ConfigNotKept"        // it could not be written to disk and is not in force yet
	ReasonConfigMissing     Reason = "ConfigMissing"        // the configured source is not there
	ReasonNoDriver          Reason = "NoDriver"             // the NVIDIA driver does not answer
	ReasonPlatform          Reason = "PlatformNotSupported" // GPUs cannot be handed out on this kind of machine
	ReasonImpossible        Reason = "Impossible"           // this GPU cannot follow its entry
	ReasonNotSupportedYet   Reason = "NotSupportedYet"      // the config asks for something that this version cannot do
	ReasonBlocked           Reason = "Blocked"              // a change waits for who holds the device
	ReasonResetRequired     Reason = "ResetRequired"        // a change waits for a GPU reset
	ReasonRebootRequired    Reason = "RebootRequired"       // a change waits for a reboot of the node
	ReasonForeignPlugin     Reason = "ForeignPlugin"        // another product serves what is ours
	ReasonModePending       Reason = "ModePending"          // the next reset or reboot will bring a MIG mode that is not wanted
	ReasonStateNotKept      Reason = "StateNotKept"         // something could not be written to the state directory
	ReasonSplitResource     Reason = "SplitResource"        // one resource name is offered through both APIs
	ReasonTimeSliceNotSet   Reason = "TimeSliceNotSet"      // the time slice of a GPU is not as the config says
	ReasonReleased          Reason = "Released"             // the agent keeps its hands off a GPU because somebody asked it to
	ReasonApplyFailed       Reason = "ApplyFailed"          // the driver refused a step; it is tried again
	ReasonNotAsPlanned      Reason = "NotAsPlanned"         // the driver said success and the GPU says otherwise
	ReasonGPUFault          Reason = "GPUFault"             // the GPU does not answer
	ReasonGPUUnhealthy      Reason = "GPUUnhealthy"         // something of a GPU is sick until evidence shows that it is not
	ReasonAccessLost        Reason = "GPUAccessLost"        // all GPUs are lost at once, which is this process's way to them
	ReasonLabelConflict     Reason = "LabelConflict"        // somebody else writes labels of the Node that are the agent's to write
	ReasonAnnotationInvalid Reason = "AnnotationInvalid"    // an annotation of the Node asks for something that cannot be understood
	ReasonUsageUnknown      Reason = "UsageUnknown"         // who holds what cannot be read, so everything counts as held
	ReasonNotServed         Reason = "NotServed"            // the API that shall serve the GPU is not run here
	ReasonPaused            Reason = "Paused"               // the config says to change nothing on this node
	ReasonPartialInstance   Reason = "PartialInstance"      // an instance is withheld because its compute instances do not fill it
	ReasonAlias             Reason = "Alias"                // a profile is called otherwise on this GPU
	ReasonImportInvalid     Reason = "NVIDIAConfigInvalid"  // a config in NVIDIA's formats was refused, the last good one stays
	ReasonImportMissing     Reason = "NVIDIAConfigMissing"  // a ConfigMap that nvidia names cannot be read
	ReasonImportIgnored     Reason = "NVIDIAConfigIgnored"  // a key of NVIDIA's formats has no effect here
	ReasonMIGConfigUnknown  Reason = "MIGConfigUnknown"     // the node's label asks for a config that is not known here
	ReasonStrategyMismatch  Reason = "StrategyMismatch"     // a GPU is not as the imported migStrategy wants it
	ReasonStateUnreadable   Reason = "StateUnreadable"      // a file of the state directory was set aside
	ReasonMemoryNotLimited  Reason = "MemoryNotLimited"     // shares can take all memory of their GPU, here no driver holds them back
	ReasonMemoryLimitNotSet Reason = "MemoryLimitNotSet"    // a running container is not held to its part of the memory
	ReasonMemoryOvercommit  Reason = "MemoryOvercommitted"  // the limits of running containers are more than the GPU has
	ReasonCDIDirUnusable    Reason = "CDIDirUnusable"       // no CDI spec can be written
	ReasonDriverFiles       Reason = "DriverFilesMissing"   // the driver's files are not there, or half installed
	ReasonNotInjectable     Reason = "NotInjectable"        // a device cannot be given to containers
	ReasonCDIUnknown        Reason = "CDIUnknown"           // the runtime may or may not inject by CDI, and no container has shown it yet
	ReasonCDINotSupported   Reason = "CDINotSupported"      // the runtime cannot inject by CDI
	ReasonCDINotInjected    Reason = "CDINotInjected"       // a container was given a device and does not have it
	ReasonEnvInjectionOpen  Reason = "EnvInjectionOpen"     // any pod can have itself shown every GPU by its environment
)

// Problem is something that could not be done, and why.
type Problem struct {
	GPU     string `json:"gpu,omitempty"` // "gpu-0"; empty = the node
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
}

func (p Problem) String() string {
	if p.GPU == "" {
		return string(p.Reason) + ": " + p.Message
	}
	return string(p.Reason) + " " + p.GPU + ": " + p.Message
}

// IsInformation says that the problem asks nothing of anybody.
func (p Problem) IsInformation() bool {
	return slices.Contains([]Reason{ReasonAlias, ReasonImportIgnored, ReasonMemoryNotLimited, ReasonSplitResource, ReasonEnvInjectionOpen, ReasonLabelConflict}, p.Reason)
}

func sortProblems(ps []Problem) []Problem {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(ps)
}
