// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// How a call travels to the daemon: its name and inputs as raw bytes in one frame, its answer and outputs in another.
#ifndef TRANSPORT_H
#define TRANSPORT_H

enum flow { FLOW_IN, FLOW_OUT, FLOW_BOTH };

// An argument is memory of the caller: inputs are sent as they are, outputs are overwritten with what comes back.
struct argument {
	void *data;
	unsigned size;
	enum flow flow;
};

// An output of UNBOUNDED size is an array that the caller made large enough, as the call's documentation demands.
#define UNBOUNDED 0xFFFFFFFFu

// forward makes one call and returns an nvmlReturn_t. Memory that is missing makes it answer INVALID_ARGUMENT.
int forward(const char *symbol, const struct argument *args, unsigned count);

#endif
