// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package report

import "gpuslice/internal/agent"

// Doc is what docs/operations.md says about a reason.
type Doc struct {
	Reason agent.Reason
	Means  string
	Fix    string
}

// Reasons documents every reason of a Problem; they are also the reasons of the condition GPUSharingReady.
func Reasons() []Doc {
	return []Doc{
		{agent.ReasonConfigInvalid, "The config was refused as a whole; the last good one is in force.", "Correct the lines that the message names; `gpu-plugin validate` says the same beforehand."},
		{agent.ReasonConfigNotKept, "A config could not be written to the state directory and is not in force yet; it is tried again.", "Look at the error in the message, such as a full disk."},
		{agent.ReasonConfigMissing, "The configured source of the config is not there.", "Create it under the name that the message gives."},
		{agent.ReasonNoDriver, "The NVIDIA driver does not answer.", "Install or load the driver; the agent picks it up by itself."},
		{agent.ReasonImpossible, "A GPU cannot follow its entry of the config and keeps what it has.", "Choose among the profiles and counts that the message lists."},
		{agent.ReasonNotSupportedYet, "The config asks for something that this version cannot do.", "Remove it, or wait for a version that can."},
		{agent.ReasonBlocked, "A change waits for who holds the device.", "Wait, or end the holder that the message names."},
		{agent.ReasonResetRequired, "A change of MIG mode takes effect with a GPU reset only.", "Reset the GPU, or reboot the node."},
		{agent.ReasonApplyFailed, "The driver refused a step of a plan; it is tried again.", "Look at the driver's answer in the message."},
		{agent.ReasonNotAsPlanned, "The driver said success and the GPU says otherwise.", "Look at the driver's log; the plan is tried again."},
		{agent.ReasonGPUFault, "A GPU does not answer; its devices are unhealthy.", "Look at the driver's log; the GPU is offered again when it answers."},
		{agent.ReasonUsageUnknown, "Who holds what cannot be read, so everything counts as held and nothing is changed.", "Give the agent what the message names, such as hostPID."},
		{agent.ReasonNotServed, "The API that shall serve a GPU is not run by this agent.", "Start the agent with that API, or change `serve`."},
		{agent.ReasonPaused, "The config says to change nothing on this node.", "Remove `paused` when the plan is what you want."},
		{agent.ReasonPartialInstance, "An instance is withheld because no compute instance fills it.", "Remove it, or put the GPU under a layout."},
		{agent.ReasonAlias, "A profile is called otherwise on this GPU.", "Nothing; use the GPU's own name to be rid of the message."},
		{agent.ReasonStateUnreadable, "A file of the state directory was set aside.", "Nothing; the file is kept beside the others for inspection."},
	}
}
