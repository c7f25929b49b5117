// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Prints what NVML shows, in the format of "nvidia-smi -L". It loads the library as any application does: by name, or from
// the path in its argument. In an image it needs the C library and the loader, nothing else.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nvml.h>

enum { TEXT_SIZE = 128 };

static void *library;

static void *symbol(const char *name)
{
	void *found = dlsym(library, name);
	if (!found) {
		fprintf(stderr, "the library has no %s\n", name);
		exit(13);
	}
	return found;
}

static void check(const char *call, nvmlReturn_t code)
{
	if (code == NVML_SUCCESS)
		return;
	const char *(*text)(nvmlReturn_t) = symbol("nvmlErrorString");
	fprintf(stderr, "%s: %s\n", call, text(code));
	exit((int)code & 0xFF);
}

static void get_text(const char *call, nvmlDevice_t device, char *text)
{
	nvmlReturn_t (*get)(nvmlDevice_t, char *, unsigned) = symbol(call);
	check(call, get(device, text, TEXT_SIZE));
}

// list_mig prints the MIG devices of a GPU; the profile stands at the end of a MIG device's name.
static void list_mig(nvmlDevice_t gpu)
{
	nvmlReturn_t (*limit)(nvmlDevice_t, unsigned *) = dlsym(library, "nvmlDeviceGetMaxMigDeviceCount");
	nvmlReturn_t (*get)(nvmlDevice_t, unsigned, nvmlDevice_t *) = dlsym(library, "nvmlDeviceGetMigDeviceHandleByIndex");
	unsigned count = 0;
	if (!limit || !get || limit(gpu, &count) != NVML_SUCCESS)
		return;
	for (unsigned i = 0; i < count; i++) {
		nvmlDevice_t mig;
		char name[TEXT_SIZE], uuid[TEXT_SIZE];
		if (get(gpu, i, &mig) != NVML_SUCCESS)
			continue;
		get_text("nvmlDeviceGetName", mig, name);
		get_text("nvmlDeviceGetUUID", mig, uuid);
		const char *profile = strstr(name, " MIG ");
		printf("  MIG %-11s Device %2u: (UUID: %s)\n", profile ? profile + 5 : name, i, uuid);
	}
}

static void list(void)
{
	nvmlReturn_t (*count)(unsigned *) = symbol("nvmlDeviceGetCount_v2");
	nvmlReturn_t (*get)(unsigned, nvmlDevice_t *) = symbol("nvmlDeviceGetHandleByIndex_v2");
	unsigned gpus;
	check("nvmlDeviceGetCount_v2", count(&gpus));
	for (unsigned i = 0; i < gpus; i++) {
		nvmlDevice_t gpu;
		char name[TEXT_SIZE], uuid[TEXT_SIZE];
		nvmlReturn_t code = get(i, &gpu);
		if (code == NVML_ERROR_GPU_IS_LOST) {
			printf("Unable to determine the device handle for gpu %u: GPU is lost\n", i);
			continue;
		}
		check("nvmlDeviceGetHandleByIndex_v2", code);
		get_text("nvmlDeviceGetName", gpu, name);
		get_text("nvmlDeviceGetUUID", gpu, uuid);
		printf("GPU %u: %s (UUID: %s)\n", i, name, uuid);
		list_mig(gpu);
	}
}

int main(int argc, char **argv)
{
	library = dlopen(argc > 1 ? argv[1] : "libnvidia-ml.so.1", RTLD_NOW);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 12;
	}
	nvmlReturn_t (*init)(void) = symbol("nvmlInit_v2");
	nvmlReturn_t (*shutdown)(void) = symbol("nvmlShutdown");
	check("nvmlInit_v2", init());
	list();
	check("nvmlShutdown", shutdown());
	return 0;
}
