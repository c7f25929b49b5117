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
		{agent.ReasonPlatform, "GPUs cannot be handed out on this kind of machine: on a system on a chip (Tegra: Jetson, Thor) and under WSL a GPU is no device that a container could have for its own. Nothing is offered of it, the agent stays up.", "Nothing; keep the agent off such nodes if the condition disturbs. Should the machine be another one, remove what the message found."},
		{agent.ReasonImpossible, "A GPU cannot follow its entry of the config and keeps what it has.", "Choose among the profiles and counts that the message lists."},
		{agent.ReasonNotSupportedYet, "The config asks for something that this version cannot do.", "Remove it, or wait for a version that can."},
		{agent.ReasonBlocked, "A change waits for who holds the device.", "Wait, or end the holder that the message names."},
		{agent.ReasonResetRequired, "A change of MIG mode takes effect with a GPU reset only.", "Reset the GPU, or reboot the node."},
		{agent.ReasonRebootRequired, "A change of MIG mode waits for a reboot of the node; it goes on by itself afterwards.", "Reboot the node when it suits you."},
		{agent.ReasonForeignPlugin, "Another product serves GPUs on this node; two that offer one GPU give it away twice. At its start the agent waits until the other is gone.", "Remove NVIDIA's device plugin or DRA driver from the node."},
		{agent.ReasonModePending, "The MIG mode of a GPU is as wanted now and will not be after its next reset or reboot, because somebody has set another.", "Set the mode back with `nvidia-smi -mig`, or use `reset: when-idle`, with which the agent does once nobody uses the GPU."},
		{agent.ReasonStateNotKept, "Something that must survive a restart could not be written to the state directory.", "Look at the error in the message, such as a full disk; it is tried again."},
		{agent.ReasonSplitResource, "One resource name is offered through the device plugin on some GPUs of the node and through DRA on others; the scheduler serves the name through the device plugin only.", "Nothing, if claims are meant to have the others; else serve all GPUs of the name through one API."},
		{agent.ReasonTimeSliceNotSet, "The driver's time slice of a GPU is not what `interval` says; shares work all the same.", "Remove `interval` where the GPU has no choice (before Turing), or look at the driver's answer in the message."},
		{agent.ReasonMemoryNotLimited, "A layout has `memory: share` and nothing on this node can hold shares to their part of the memory; they work all the same.", "Nothing, if the users of the GPU get along; otherwise look at what the message misses: driver 615 or newer, cgroup v2, a GPU that is not in MIG mode."},
		{agent.ReasonMemoryLimitNotSet, "A running container is not held to its part of the memory of a GPU; it is tried again.", "Look at the driver's answer in the message."},
		{agent.ReasonMemoryOvercommit, "The limits of the containers that run on a GPU are more than its memory, because `replicas` was edited meanwhile.", "Nothing, or end containers from before the edit."},
		{agent.ReasonReleased, "The agent keeps its hands off a GPU because a node label or the annotation `gpuslice.dev/release` says so; its devices stay in the lists and nothing new is given out.", "Take the label or annotation away when the GPU may be used again."},
		{agent.ReasonApplyFailed, "The driver refused a step of a plan; it is tried again.", "Look at the driver's answer in the message."},
		{agent.ReasonNotAsPlanned, "The driver said success and the GPU says otherwise.", "Look at the driver's log; the plan is tried again."},
		{agent.ReasonGPUFault, "A GPU does not answer; its devices are unhealthy.", "Look at the driver's log; the GPU is offered again when it answers."},
		{agent.ReasonGPUUnhealthy, "A GPU or an instance is sick, and its devices are unhealthy until evidence shows that it is over: a reset after which the driver wants nothing more, a load of the driver, a boot, or an admin's word. docs/health.md has the table.", "Do what the message says. If you know better, name the GPU in the annotation `gpuslice.dev/clear-fault` of the Node."},
		{agent.ReasonAccessLost, "All GPUs of a node that answered were lost at once. That is taken for the agent's way to them, so they are offered as before and read again.", "Look at the driver's log; if it is the GPUs after all, cordon the node or report them with the annotation `gpuslice.dev/fault`."},
		{agent.ReasonLabelConflict, "Somebody else writes labels of the Node that the agent would write with other values; theirs stay, all others are written.", "Stop the other writer, such as GPU Feature Discovery, whose field manager the message names, and remove its labels once (`kubectl label node NODE KEY-`)."},
		{agent.ReasonAnnotationInvalid, "An annotation of the Node, `gpuslice.dev/fault` or `gpuslice.dev/clear-fault`, names a GPU that is not here or cannot be understood; the rest of it is followed.", "Correct what the message names."},
		{agent.ReasonUsageUnknown, "Who holds what cannot be read, so everything counts as held and nothing is changed.", "Give the agent what the message names, such as hostPID."},
		{agent.ReasonNotServed, "The API that shall serve a GPU is not run by this agent.", "Start the agent with that API, or change `serve`."},
		{agent.ReasonPaused, "The config says to change nothing on this node.", "Remove `paused` when the plan is what you want."},
		{agent.ReasonPartialInstance, "An instance is withheld because no compute instance fills it.", "Remove it, or put the GPU under a layout."},
		{agent.ReasonAlias, "A profile is called otherwise on this GPU.", "Nothing; use the GPU's own name to be rid of the message."},
		{agent.ReasonImportInvalid, "A config in NVIDIA's formats was refused as a whole; the last good one is in force.", "Correct the lines that the message names; `gpu-plugin convert` says the same beforehand."},
		{agent.ReasonImportMissing, "A ConfigMap in NVIDIA's formats that `nvidia` names cannot be read; the last good config is in force.", "Create it, or its key, under the name that the message gives."},
		{agent.ReasonImportIgnored, "A key of NVIDIA's formats has no effect here.", "Nothing; the message says what does instead."},
		{agent.ReasonMIGConfigUnknown, "The label `nvidia.com/mig.config` of the node names a config that is not known, or that is for none of its GPUs; the last one that was known is in force.", "Choose among the configs that the message lists."},
		{agent.ReasonStrategyMismatch, "A GPU is not as `flags.migStrategy` of NVIDIA's config wants it.", "Cut the GPUs alike, or choose the strategy `mixed`."},
		{agent.ReasonNotInjectable, "A device cannot be given to containers, so it is listed as unhealthy; the others are served.", "Look at the error in the message, such as a device node that is missing below `--dev-root`; the device is healthy again when it can be given."},
		{agent.ReasonCDIDirUnusable, "No CDI spec can be written into the directory that `--cdi-dir` names, or read back from it; devices that no runtime could inject are unhealthy.", "Make the directory that the message names writable, remove the file that it names, or name another that the runtime reads; the agent goes on by itself."},
		{agent.ReasonDriverFiles, "The driver's libraries are not there, or an installation is under way. CDI specs stay as they are.", "Wait for the installation to end; otherwise look at the paths in the message, which `--driver-root` is part of."},
		{agent.ReasonCDIUnknown, "Whether the container runtime injects devices by CDI depends on its config. It goes when the first container has its devices.", "Set the lines that the message names, or use `--device-list-strategy=envvar`."},
		{agent.ReasonCDINotSupported, "The container runtime of the node is too old to inject devices by CDI, or cannot.", "Upgrade it, or use `--device-list-strategy=envvar` with NVIDIA's container runtime."},
		{agent.ReasonCDINotInjected, "A container was given a device and does not have it, or the runtime refuses to make it: the runtime does not read our CDI specs.", "Let the runtime read the directory that the message names, or give `--cdi-dir` one that it reads; usual are `/etc/cdi` and `/var/run/cdi`."},
		{agent.ReasonEnvInjectionOpen, "With `--device-list-strategy=envvar` any pod sees every GPU that its environment asks for.", "Nothing, if you trust the pods of the node; otherwise use a runtime with CDI."},
		{agent.ReasonStateUnreadable, "A file of the state directory was set aside. If it was the record of a GPU's health, the GPU is unhealthy until evidence or an admin's word.", "Nothing for other files; for a GPU that is well, name it in the annotation `gpuslice.dev/clear-fault`. The file is kept beside the others for inspection."},
	}
}

// StateDoc is what docs/operations.md says about an Event of the label nvidia.com/mig.config.state.
type StateDoc struct {
	Reason string
	Means  string
}

// States documents the Events of that label by their reason; the message says why.
func States() []StateDoc {
	return []StateDoc{
		{eventReason(Pending), "The config that the label `nvidia.com/mig.config` names is being applied, or waits for who holds a device."},
		{eventReason(Rebooting), "It waits for a reboot of the node and goes on by itself afterwards."},
		{eventReason(Success), "Every GPU that it is for was read back as it says."},
		{eventReason(Failed), "It cannot be followed as things are; it is tried again without a new label."},
	}
}
