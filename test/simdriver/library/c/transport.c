// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// The library keeps no state but connections. Every call has a connection for itself, so that calls which block do not stop
// others; all connections of a process are one session of the driver, which ends with the last of them.
#define _GNU_SOURCE
#include "transport.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { INVALID_ARGUMENT = 2, DRIVER_NOT_LOADED = 9, UNKNOWN = 999 };

// TAG_PROBE marks a frame that asks for device nodes to be opened instead of answering the call.
#define TAG_CALL 0u
#define TAG_PROBE 0xFFFFFFFFu
// TAG_HOLD marks a frame that names a device node to be kept open, or with no name lets go of all.
#define TAG_HOLD 0xFFFFFFFEu
#define MAX_BODY (1u << 20)
#define MAX_IDLE 64
#define MAX_HELD 64

struct frame {
	uint32_t tag;
	uint32_t size;
	char *body;
};

static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static int idle[MAX_IDLE];
static int idle_count;

static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;
static int held[MAX_HELD];
static int held_count;

// find_root is where the driver is installed: what stands before the folder in which this library lies, "" for "/".
static void find_root(char *root, size_t size)
{
	static const char *const folders[] = {"/usr/lib64/", "/usr/lib/", "/lib64/", "/lib/"};
	Dl_info info;
	char path[PATH_MAX];
	root[0] = '\0';
	if (!dladdr((void *)forward, &info) || !info.dli_fname || !realpath(info.dli_fname, path))
		return;
	for (unsigned i = 0; i < sizeof folders / sizeof *folders; i++) {
		const char *at = strstr(path, folders[i]);
		if (at && (size_t)(at - path) < size) {
			memcpy(root, path, at - path);
			root[at - path] = '\0';
			return;
		}
	}
}

// connect_to connects to the socket in a folder, which may lie too deep for a socket address.
static int connect_to(const char *folder)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int dir = -1;
	if (snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", folder) >= (int)sizeof address.sun_path) {
		dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
		snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/socket", dir);
	}
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
		close(fd);
		fd = -1;
	}
	if (dir >= 0)
		close(dir);
	return fd;
}

// dial connects to the place of the persistence daemon's socket, which container runtimes mount by themselves.
static int dial(void)
{
	char root[4000], folder[4096];
	find_root(root, sizeof root);
	snprintf(folder, sizeof folder, "%s/run/nvidia-persistenced", root);
	int fd = connect_to(folder);
	if (fd < 0)
		fd = connect_to("/run/nvidia-persistenced");
	if (fd < 0)
		fd = connect_to("/var/run/nvidia-persistenced");
	return fd;
}

static int take_idle(void)
{
	pthread_mutex_lock(&idle_lock);
	int fd = idle_count > 0 ? idle[--idle_count] : -1;
	pthread_mutex_unlock(&idle_lock);
	return fd;
}

static void give_back(int fd)
{
	pthread_mutex_lock(&idle_lock);
	if (idle_count < MAX_IDLE) {
		idle[idle_count++] = fd;
		fd = -1;
	}
	pthread_mutex_unlock(&idle_lock);
	if (fd >= 0)
		close(fd);
}

static void drop_idle(void)
{
	for (int fd = take_idle(); fd >= 0; fd = take_idle())
		close(fd);
}

static int send_all(int fd, const void *data, size_t size)
{
	for (const char *at = data; size > 0;) {
		ssize_t n = send(fd, at, size, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		at += n;
		size -= n;
	}
	return 0;
}

static int receive_all(int fd, void *data, size_t size)
{
	for (char *at = data; size > 0;) {
		ssize_t n = recv(fd, at, size, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		at += n;
		size -= n;
	}
	return 0;
}

static int send_frame(int fd, uint32_t tag, const void *body, uint32_t size)
{
	uint32_t header[2] = {tag, size};
	return send_all(fd, header, sizeof header) || send_all(fd, body, size) ? -1 : 0;
}

static int receive_frame(int fd, struct frame *f)
{
	uint32_t header[2];
	if (receive_all(fd, header, sizeof header) || header[1] > MAX_BODY)
		return -1;
	f->tag = header[0];
	f->size = header[1];
	f->body = malloc(f->size + 1);
	if (!f->body || receive_all(fd, f->body, f->size)) {
		free(f->body);
		return -1;
	}
	f->body[f->size] = '\0';
	return 0;
}

// find_node is the path of a device node: below the root of the driver, or of this process.
static void find_node(char *path, size_t size, const char *name)
{
	char root[4000];
	find_root(root, sizeof root);
	snprintf(path, size, "%s/dev/nvidiactl", root);
	const char *base = access(path, F_OK) == 0 ? root : "";
	snprintf(path, size, "%s/dev/%s", base, name);
}

// hold keeps a node open for /proc to show. Nobody serves the node, so only its path can be opened.
static void hold(const char *name)
{
	char path[4600];
	pthread_mutex_lock(&held_lock);
	while (name[0] == '\0' && held_count > 0)
		close(held[--held_count]);
	if (name[0] != '\0' && held_count < MAX_HELD) {
		find_node(path, sizeof path, name);
		int fd = open(path, O_PATH | O_CLOEXEC);
		if (fd >= 0)
			held[held_count++] = fd;
	}
	pthread_mutex_unlock(&held_lock);
}

// try_node says what open(2) says of a device node: the runtime's device cgroup speaks through it.
static int32_t try_node(const char *name)
{
	char path[4600];
	find_node(path, sizeof path, name);
	int fd = open(path, (strncmp(name, "nvidia-caps/", 12) == 0 ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

// answer_probe opens the nodes whose names fill the body, each with its closing zero.
static int answer_probe(int fd, const struct frame *f)
{
	int32_t *answers = malloc((f->size + 1) * sizeof *answers);
	uint32_t count = 0;
	if (!answers)
		return -1;
	for (uint32_t at = 0; at < f->size; at += strlen(f->body + at) + 1)
		answers[count++] = try_node(f->body + at);
	int failed = send_frame(fd, TAG_PROBE, answers, count * sizeof *answers);
	free(answers);
	return failed;
}

// exchange sends the call and answers probes until its answer comes.
static int exchange(int fd, const void *call, uint32_t size, struct frame *answer)
{
	if (send_frame(fd, TAG_CALL, call, size))
		return -1;
	for (;;) {
		if (receive_frame(fd, answer))
			return -1;
		if (answer->tag == TAG_HOLD) {
			hold(answer->body);
			free(answer->body);
			continue;
		}
		if (answer->tag != TAG_PROBE)
			return 0;
		int failed = answer_probe(fd, answer);
		free(answer->body);
		if (failed)
			return -1;
	}
}

// encode makes the body of a call: name, zero, inputs. It returns NULL where the caller's memory is missing.
static char *encode(const char *symbol, const struct argument *args, unsigned count, uint32_t *size)
{
	size_t total = strlen(symbol) + 1;
	for (unsigned i = 0; i < count; i++) {
		if (!args[i].data && args[i].size > 0)
			return NULL;
		if (args[i].flow != FLOW_OUT)
			total += args[i].size;
	}
	char *body = total <= MAX_BODY ? malloc(total) : NULL;
	if (!body)
		return NULL;
	char *at = stpcpy(body, symbol) + 1;
	for (unsigned i = 0; i < count; i++) {
		if (args[i].flow == FLOW_OUT || args[i].size == 0)
			continue;
		memcpy(at, args[i].data, args[i].size);
		at += args[i].size;
	}
	*size = total;
	return body;
}

// decode copies outputs, each with its length before it, to where the caller wants them.
static void decode(const struct frame *f, const struct argument *args, unsigned count)
{
	uint32_t at = 0, length;
	for (unsigned i = 0; i < count; i++) {
		if (args[i].flow == FLOW_IN)
			continue;
		if (f->size - at < sizeof length)
			return;
		memcpy(&length, f->body + at, sizeof length);
		at += sizeof length;
		if (length > f->size - at)
			return;
		if (args[i].data)
			memcpy(args[i].data, f->body + at, length < args[i].size ? length : args[i].size);
		at += length;
	}
}

// A connection from before may lead to a daemon that has gone. Making the call again on a new one is safe: the daemon refuses
// everything to a session that it does not know.
static int exchange_anew(const void *call, uint32_t size, struct frame *answer)
{
	int fd = take_idle();
	if (fd >= 0 && exchange(fd, call, size, answer)) {
		close(fd);
		drop_idle();
		fd = -1;
	} else if (fd >= 0) {
		return fd;
	}
	fd = dial();
	if (fd >= 0 && exchange(fd, call, size, answer)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

int forward(const char *symbol, const struct argument *args, unsigned count)
{
	struct frame answer;
	uint32_t size;
	char *call = encode(symbol, args, count, &size);
	if (!call)
		return INVALID_ARGUMENT;
	int fd = exchange_anew(call, size, &answer);
	free(call);
	if (fd < 0)
		return DRIVER_NOT_LOADED;
	give_back(fd);
	decode(&answer, args, count);
	int code = answer.tag <= UNKNOWN ? (int)answer.tag : UNKNOWN;
	free(answer.body);
	return code;
}
