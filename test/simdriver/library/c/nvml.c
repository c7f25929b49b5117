// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// The calls that the daemon answers, as nvml.h declares them: the compiler checks every signature. The build adds a stub that
// answers NOT_SUPPORTED for every other function of nvml.h; it finds the names here by the macro at the start of a line.
#include <stddef.h>
#include <string.h>

#include <nvml.h>

#include "transport.h"

typedef unsigned int number;

#define IN(value)        {(void *)&(value), sizeof(value), FLOW_IN}
#define TEXT(text)       {(void *)(text), (text) ? strlen(text) + 1 : 1, FLOW_IN}
#define OUT(pointer)     {(void *)(pointer), sizeof *(pointer), FLOW_OUT}
#define BOTH(pointer)    {(void *)(pointer), sizeof *(pointer), FLOW_BOTH}
#define CHARS(p, length) {(void *)(p), (length), FLOW_OUT}
// MANY is an array of the caller's that is filled in.
#define MANY(p, count)   {(void *)(p), (count) > 0 ? (number)(count) * sizeof *(p) : 1, FLOW_BOTH}
// A list may be missing, then only its length is asked for.
#define LIST(pointer)    {(void *)(pointer), (pointer) ? UNBOUNDED : 0, FLOW_OUT}
// A structure with a version has its size in there.
#define VERSIONED(p)     {(void *)(p), (p) ? (p)->version & 0xFFFFFF : 1, FLOW_BOTH}
// FIELD is one member of a structure, NAME one that is a string.
#define FIELD(p, f, way) {(p) ? (void *)&(p)->f : NULL, sizeof (p)->f, way}
#define NAME(p, f)       {(p) ? (void *)(p)->f : NULL, (p) && (p)->f ? strlen((p)->f) + 1 : 1, FLOW_IN}
// In the library of old drivers an event had no instances.
#define OLD_EVENT(event) {(void *)(event), offsetof(nvmlEventData_t, gpuInstanceId), FLOW_OUT}

#define NVML0(symbol) \
	nvmlReturn_t symbol(void) { return (nvmlReturn_t)forward(#symbol, NULL, 0); }
#define NVML(symbol, parameters, ...)                                                    \
	nvmlReturn_t symbol parameters                                                       \
	{                                                                                    \
		const struct argument args[] = {__VA_ARGS__};                                    \
		return (nvmlReturn_t)forward(#symbol, args, sizeof args / sizeof *args);         \
	}

// The system.
NVML0(nvmlInit)
NVML0(nvmlInit_v2)
NVML0(nvmlShutdown)
NVML(nvmlInitWithFlags, (number flags), IN(flags))
NVML(nvmlSystemGetDriverVersion, (char *text, number length), IN(length), CHARS(text, length))
NVML(nvmlSystemGetNVMLVersion, (char *text, number length), IN(length), CHARS(text, length))
NVML(nvmlSystemGetCudaDriverVersion, (int *version), OUT(version))
NVML(nvmlSystemGetCudaDriverVersion_v2, (int *version), OUT(version))

// Finding devices.
NVML(nvmlDeviceGetCount, (number *count), OUT(count))
NVML(nvmlDeviceGetCount_v2, (number *count), OUT(count))
NVML(nvmlDeviceGetHandleByIndex, (number index, nvmlDevice_t *device), IN(index), OUT(device))
NVML(nvmlDeviceGetHandleByIndex_v2, (number index, nvmlDevice_t *device), IN(index), OUT(device))
NVML(nvmlDeviceGetHandleByUUID, (const char *uuid, nvmlDevice_t *device), TEXT(uuid), OUT(device))
NVML(nvmlDeviceGetHandleByPciBusId, (const char *id, nvmlDevice_t *device), TEXT(id), OUT(device))
NVML(nvmlDeviceGetHandleByPciBusId_v2, (const char *id, nvmlDevice_t *device), TEXT(id), OUT(device))

// What a device is.
NVML(nvmlDeviceGetIndex, (nvmlDevice_t device, number *index), IN(device), OUT(index))
NVML(nvmlDeviceGetMinorNumber, (nvmlDevice_t device, number *minor), IN(device), OUT(minor))
NVML(nvmlDeviceGetUUID, (nvmlDevice_t device, char *text, number length), IN(device), IN(length), CHARS(text, length))
NVML(nvmlDeviceGetName, (nvmlDevice_t device, char *text, number length), IN(device), IN(length), CHARS(text, length))
NVML(nvmlDeviceGetVirtualizationMode, (nvmlDevice_t device, nvmlGpuVirtualizationMode_t *mode), IN(device), OUT(mode))
NVML(nvmlDeviceGetBrand, (nvmlDevice_t device, nvmlBrandType_t *brand), IN(device), OUT(brand))
NVML(nvmlDeviceGetArchitecture, (nvmlDevice_t device, nvmlDeviceArchitecture_t *arch), IN(device), OUT(arch))
NVML(nvmlDeviceGetCudaComputeCapability, (nvmlDevice_t device, int *major, int *minor), IN(device), OUT(major), OUT(minor))
NVML(nvmlDeviceGetPciInfo, (nvmlDevice_t device, nvmlPciInfo_t *pci), IN(device), OUT(pci))
NVML(nvmlDeviceGetPciInfo_v2, (nvmlDevice_t device, nvmlPciInfo_t *pci), IN(device), OUT(pci))
NVML(nvmlDeviceGetPciInfo_v3, (nvmlDevice_t device, nvmlPciInfo_t *pci), IN(device), OUT(pci))
NVML(nvmlDeviceGetMemoryInfo, (nvmlDevice_t device, nvmlMemory_t *memory), IN(device), OUT(memory))
NVML(nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t device, nvmlMemory_v2_t *memory), IN(device), VERSIONED(memory))
NVML(nvmlDeviceGetPersistenceMode, (nvmlDevice_t device, nvmlEnableState_t *mode), IN(device), OUT(mode))
NVML(nvmlDeviceSetPersistenceMode, (nvmlDevice_t device, nvmlEnableState_t mode), IN(device), IN(mode))
NVML(nvmlDeviceSetMemoryLimits_v1, (nvmlDevice_t device, nvmlSetMemoryLimits_v1_t *l), IN(device), NAME(l, nameSpace), FIELD(l, softLimit, FLOW_IN), FIELD(l, hardLimit, FLOW_IN))
NVML(nvmlDeviceGetMemoryLimits_v1, (nvmlDevice_t device, nvmlGetMemoryLimits_v1_t *l), IN(device), NAME(l, nameSpace), FIELD(l, softLimit, FLOW_OUT), FIELD(l, hardLimit, FLOW_OUT), FIELD(l, currentUsed, FLOW_OUT))

// How GPUs reach each other.
NVML(nvmlDeviceGetTopologyCommonAncestor, (nvmlDevice_t a, nvmlDevice_t b, nvmlGpuTopologyLevel_t *level), IN(a), IN(b), OUT(level))
NVML(nvmlDeviceGetNvLinkState, (nvmlDevice_t device, number link, nvmlEnableState_t *active), IN(device), IN(link), OUT(active))
NVML(nvmlDeviceGetNvLinkRemotePciInfo, (nvmlDevice_t device, number link, nvmlPciInfo_t *pci), IN(device), IN(link), OUT(pci))
NVML(nvmlDeviceGetNvLinkRemotePciInfo_v2, (nvmlDevice_t device, number link, nvmlPciInfo_t *pci), IN(device), IN(link), OUT(pci))
NVML(nvmlDeviceGetNvLinkRemoteDeviceType, (nvmlDevice_t device, number link, nvmlIntNvLinkDeviceType_t *end), IN(device), IN(link), OUT(end))

// MIG devices.
NVML(nvmlDeviceIsMigDeviceHandle, (nvmlDevice_t device, number *is), IN(device), OUT(is))
NVML(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, (nvmlDevice_t mig, nvmlDevice_t *device), IN(mig), OUT(device))
NVML(nvmlDeviceGetMaxMigDeviceCount, (nvmlDevice_t device, number *count), IN(device), OUT(count))
NVML(nvmlDeviceGetMigDeviceHandleByIndex, (nvmlDevice_t device, number i, nvmlDevice_t *mig), IN(device), IN(i), OUT(mig))
NVML(nvmlDeviceGetGpuInstanceId, (nvmlDevice_t device, number *id), IN(device), OUT(id))
NVML(nvmlDeviceGetComputeInstanceId, (nvmlDevice_t device, number *id), IN(device), OUT(id))
NVML(nvmlDeviceGetAttributes, (nvmlDevice_t device, nvmlDeviceAttributes_t *all), IN(device), OUT(all))
NVML(nvmlDeviceGetAttributes_v2, (nvmlDevice_t device, nvmlDeviceAttributes_t *all), IN(device), OUT(all))

// MIG mode and GPU instances.
NVML(nvmlDeviceGetMigMode, (nvmlDevice_t device, number *current, number *pending), IN(device), OUT(current), OUT(pending))
NVML(nvmlDeviceSetMigMode, (nvmlDevice_t device, number mode, nvmlReturn_t *activation), IN(device), IN(mode), OUT(activation))
NVML(nvmlDeviceGetGpuInstanceProfileInfo, (nvmlDevice_t device, number profile, nvmlGpuInstanceProfileInfo_t *info), IN(device), IN(profile), OUT(info))
NVML(nvmlDeviceGetGpuInstanceProfileInfoV, (nvmlDevice_t device, number profile, nvmlGpuInstanceProfileInfo_v2_t *info), IN(device), IN(profile), VERSIONED(info))
NVML(nvmlDeviceGetGpuInstancePossiblePlacements, (nvmlDevice_t device, number id, nvmlGpuInstancePlacement_t *all, number *count), IN(device), IN(id), LIST(all), OUT(count))
NVML(nvmlDeviceGetGpuInstancePossiblePlacements_v2, (nvmlDevice_t device, number id, nvmlGpuInstancePlacement_t *all, number *count), IN(device), IN(id), LIST(all), OUT(count))
NVML(nvmlDeviceGetGpuInstances, (nvmlDevice_t device, number id, nvmlGpuInstance_t *all, number *count), IN(device), IN(id), LIST(all), OUT(count))
NVML(nvmlDeviceGetGpuInstanceById, (nvmlDevice_t device, number id, nvmlGpuInstance_t *gi), IN(device), IN(id), OUT(gi))
NVML(nvmlDeviceCreateGpuInstanceWithPlacement, (nvmlDevice_t device, number id, const nvmlGpuInstancePlacement_t *at, nvmlGpuInstance_t *gi), IN(device), IN(id), {(void *)at, sizeof *at, FLOW_IN}, OUT(gi))
NVML(nvmlGpuInstanceDestroy, (nvmlGpuInstance_t gi), IN(gi))
NVML(nvmlGpuInstanceGetInfo, (nvmlGpuInstance_t gi, nvmlGpuInstanceInfo_t *info), IN(gi), OUT(info))

// Compute instances.
NVML(nvmlGpuInstanceGetComputeInstanceProfileInfo, (nvmlGpuInstance_t gi, number profile, number engines, nvmlComputeInstanceProfileInfo_t *info), IN(gi), IN(profile), IN(engines), OUT(info))
NVML(nvmlGpuInstanceGetComputeInstanceProfileInfoV, (nvmlGpuInstance_t gi, number profile, number engines, nvmlComputeInstanceProfileInfo_v2_t *info), IN(gi), IN(profile), IN(engines), VERSIONED(info))
NVML(nvmlGpuInstanceGetComputeInstances, (nvmlGpuInstance_t gi, number id, nvmlComputeInstance_t *all, number *count), IN(gi), IN(id), LIST(all), OUT(count))
NVML(nvmlGpuInstanceGetComputeInstanceById, (nvmlGpuInstance_t gi, number id, nvmlComputeInstance_t *ci), IN(gi), IN(id), OUT(ci))
NVML(nvmlGpuInstanceCreateComputeInstance, (nvmlGpuInstance_t gi, number id, nvmlComputeInstance_t *ci), IN(gi), IN(id), OUT(ci))
NVML(nvmlComputeInstanceDestroy, (nvmlComputeInstance_t ci), IN(ci))
NVML(nvmlComputeInstanceGetInfo, (nvmlComputeInstance_t ci, nvmlComputeInstanceInfo_t *info), IN(ci), OUT(info))
NVML(nvmlComputeInstanceGetInfo_v2, (nvmlComputeInstance_t ci, nvmlComputeInstanceInfo_t *info), IN(ci), OUT(info))

// Processes.
NVML(nvmlDeviceGetComputeRunningProcesses, (nvmlDevice_t device, number *count, nvmlProcessInfo_v1_t *all), IN(device), BOTH(count), LIST(all))
NVML(nvmlDeviceGetComputeRunningProcesses_v2, (nvmlDevice_t device, number *count, nvmlProcessInfo_v2_t *all), IN(device), BOTH(count), LIST(all))
NVML(nvmlDeviceGetComputeRunningProcesses_v3, (nvmlDevice_t device, number *count, nvmlProcessInfo_t *all), IN(device), BOTH(count), LIST(all))
NVML(nvmlDeviceGetGraphicsRunningProcesses, (nvmlDevice_t device, number *count, nvmlProcessInfo_v1_t *all), IN(device), BOTH(count), LIST(all))
NVML(nvmlDeviceGetGraphicsRunningProcesses_v2, (nvmlDevice_t device, number *count, nvmlProcessInfo_v2_t *all), IN(device), BOTH(count), LIST(all))
NVML(nvmlDeviceGetGraphicsRunningProcesses_v3, (nvmlDevice_t device, number *count, nvmlProcessInfo_t *all), IN(device), BOTH(count), LIST(all))
NVML(nvmlDeviceGetMPSComputeRunningProcesses, (nvmlDevice_t device, number *count, nvmlProcessInfo_v1_t *all), IN(device), BOTH(count), LIST(all))
NVML(nvmlDeviceGetMPSComputeRunningProcesses_v2, (nvmlDevice_t device, number *count, nvmlProcessInfo_v2_t *all), IN(device), BOTH(count), LIST(all))
NVML(nvmlDeviceGetMPSComputeRunningProcesses_v3, (nvmlDevice_t device, number *count, nvmlProcessInfo_t *all), IN(device), BOTH(count), LIST(all))

// How it is.
NVML(nvmlDeviceGetFieldValues, (nvmlDevice_t device, int count, nvmlFieldValue_t *all), IN(device), IN(count), MANY(all, count))

// Events.
NVML(nvmlEventSetCreate, (nvmlEventSet_t *set), OUT(set))
NVML(nvmlEventSetFree, (nvmlEventSet_t set), IN(set))
NVML(nvmlDeviceGetSupportedEventTypes, (nvmlDevice_t device, unsigned long long *types), IN(device), OUT(types))
NVML(nvmlDeviceRegisterEvents, (nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set), IN(device), IN(types), IN(set))
NVML(nvmlEventSetWait, (nvmlEventSet_t set, nvmlEventData_t *event, number ms), IN(set), OLD_EVENT(event), IN(ms))
NVML(nvmlEventSetWait_v2, (nvmlEventSet_t set, nvmlEventData_t *event, number ms), IN(set), OUT(event), IN(ms))
