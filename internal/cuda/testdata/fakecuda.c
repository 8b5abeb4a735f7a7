// A GPU driver for tests, whose "device" memory is files that processes share.
// It checks what a real one would: that a context is current on the calling
// thread, that a handle is opened in the right device's context and not by the
// process that it comes from, and that nothing beyond an allocation is touched.
//
// FAKE_CUDA        folder of what processes share; without it nothing is shared
// FAKE_CUDA_COUNT  devices of the machine, 1 without it; CUDA_VISIBLE_DEVICES picks and numbers those of a process
//
// In the folder:
//   log                   a line for each copy, synchronise, alloc, free, open and close: pid, what, bytes; "fault" lines
//                         say what would have been undefined
//   mem-DEVICE-PID-N      an allocation, with its bytes
//   open-NAME-PID         an allocation that a process has open
//   fail-FUNCTION         the test's: the function fails with the number in the file
//   hold-FUNCTION         the test's: the function waits while this is there, and makes held-FUNCTION
//
// Device addresses are those of the host with one bit flipped, so that reading
// them without the driver fails. Copies from device to device are done when the
// device must have done them, no earlier.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct { char reserved[64]; } handle;
typedef unsigned long long address;
typedef struct { address at; size_t size; int device, refs, own, mapped; char name[64]; } region;
typedef struct copy { struct copy *next; address to, from; size_t size; } copy;

enum { OK, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, MAX_DEVICES = 8, MAX_REGIONS = 4096 };
static const address flip = 1ULL << 62;
static const int first = 40; // the driver's own number of the first device

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread char *current[16];
static __thread int depth;
static char contexts[MAX_DEVICES];
static region regions[MAX_REGIONS];
static copy *pending, **last = &pending;
static int retained, opened, numbered;
// What the handle of the bytes 1 to 64 stands for: the last 240 of 256 bytes.
static char memory[256];

// For tests within one process.
int fakeInUse(void) { return retained * 1000 + opened; }
int fakeDepth(void) { return depth; }
// What a framework would do, which nobody counts: memory of its own, and kernels that write and read.
address fakeNew(size_t size) { return (address)(size_t)calloc(1, size ? size : 1) ^ flip; }
void fakeDelete(address p) { free((void *)(size_t)(p ^ flip)); }
void fakeWrite(address to, const void *from, size_t size) { memcpy((void *)(size_t)(to ^ flip), from, size); }
void fakeRead(void *to, address from, size_t size) { memcpy(to, (void *)(size_t)(from ^ flip), size); }

static const char *folder(void) { const char *at = getenv("FAKE_CUDA"); return at && *at ? at : NULL; }

static void note(const char *what, size_t size) {
	char path[4096], line[256];
	if (!folder()) return;
	snprintf(path, sizeof path, "%s/log", folder());
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0) return;
	int n = snprintf(line, sizeof line, "%d %s %zu\n", getpid(), what, size);
	if (write(fd, line, n) != n) abort();
	close(fd);
}

// What the test wants of a function: to wait, or to fail.
static int wanted(const char *function) {
	char path[4096], held[4096];
	if (!folder()) return OK;
	snprintf(path, sizeof path, "%s/hold-%s", folder(), function);
	if (access(path, F_OK) == 0) {
		snprintf(held, sizeof held, "%s/held-%s", folder(), function);
		close(open(held, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
		while (access(path, F_OK) == 0) usleep(1000);
	}
	snprintf(path, sizeof path, "%s/fail-%s", folder(), function);
	FILE *f = fopen(path, "re");
	if (!f) return OK;
	int status = OK;
	if (fscanf(f, "%d", &status) != 1) status = 999;
	fclose(f);
	return status;
}
#define WANTED() do { int status = wanted(__func__); if (status) return status; } while (0)
#define CONTEXT() do { if (!depth) return INVALID_CONTEXT; } while (0)

// The devices of this process: the machine's number of each.
static int visible(int *list) {
	int count = getenv("FAKE_CUDA_COUNT") ? atoi(getenv("FAKE_CUDA_COUNT")) : 1, n = 0;
	const char *names = getenv("CUDA_VISIBLE_DEVICES");
	if (!names) {
		for (; n < count && n < MAX_DEVICES; n++) list[n] = n;
		return n;
	}
	while (*names && n < MAX_DEVICES) {
		char *end;
		long number = strtol(names, &end, 10);
		if (end == names || number < 0 || number >= count) break;
		list[n++] = number;
		names = *end == ',' ? end + 1 : end;
	}
	return n;
}

static int place(void) { return current[depth - 1] - contexts; } // the machine's number of the current device

static region *containing(address p, size_t size) {
	for (region *r = regions; r < regions + MAX_REGIONS; r++)
		if (r->refs && p >= r->at && p - r->at <= r->size && size <= r->size - (p - r->at)) return r;
	return NULL;
}

// Whether a copy goes beyond the allocation that it begins in. Other memory is the framework's.
static int beyond(address p, size_t size) {
	for (region *r = regions; r < regions + MAX_REGIONS; r++)
		if (r->refs && p >= r->at && p - r->at < r->size) return size > r->size - (p - r->at);
	address end = (address)(size_t)(memory + sizeof memory) ^ flip, start = (address)(size_t)memory ^ flip;
	return p >= start && p < end && size > end - p;
}

// All that the device was told to do so far.
static void work(void) {
	while (pending) {
		copy *c = pending;
		memmove((void *)(size_t)(c->to ^ flip), (void *)(size_t)(c->from ^ flip), c->size);
		pending = c->next;
		free(c);
	}
	last = &pending;
}

static region *map(const char *name, size_t size, int device, int own, int flags) {
	char path[4096];
	region *r = regions;
	while (r < regions + MAX_REGIONS && r->refs) r++;
	if (r == regions + MAX_REGIONS) return NULL;
	snprintf(path, sizeof path, "%s/%s", folder(), name);
	int fd = open(path, O_RDWR | O_CLOEXEC | flags, 0600);
	if (fd < 0) return NULL;
	off_t length = lseek(fd, 0, SEEK_END);
	if (flags && ftruncate(fd, size)) { close(fd); unlink(path); return NULL; }
	if (!flags) size = length;
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at == MAP_FAILED) return NULL;
	*r = (region){.at = (address)(size_t)at ^ flip, .size = size, .device = device, .refs = 1, .own = own, .mapped = 1};
	snprintf(r->name, sizeof r->name, "%s", name);
	return r;
}

static void unmap(region *r) {
	if (r->mapped) munmap((void *)(size_t)(r->at ^ flip), r->size);
	else free((void *)(size_t)(r->at ^ flip));
	memset(r, 0, sizeof *r);
}

static void mark(const region *r, int on) {
	char path[4096];
	snprintf(path, sizeof path, "%s/open-%s-%d", folder(), r->name, getpid());
	if (on) close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	else unlink(path);
}

// Whether a process that lives has the allocation open.
static int is_open(const char *name) {
	char start[128];
	int found = 0, n = snprintf(start, sizeof start, "open-%s-", name);
	DIR *d = opendir(folder());
	for (struct dirent *e; d && (e = readdir(d));)
		if (!strncmp(e->d_name, start, n) && (kill(atoi(e->d_name + n), 0) == 0 || errno == EPERM)) found = 1;
	if (d) closedir(d);
	return found;
}

int cuInit(unsigned flags) { WANTED(); return flags ? INVALID_VALUE : OK; }
int cuGetErrorString(int status, const char **text) {
	*text = status == 700 ? "an illegal memory access was encountered" : status == OUT_OF_MEMORY ? "out of memory" : NULL;
	return *text ? OK : INVALID_VALUE;
}
int cuDeviceGetCount(int *n) { int list[MAX_DEVICES]; WANTED(); *n = visible(list); return OK; }
int cuDeviceGet(int *d, int n) {
	int list[MAX_DEVICES];
	WANTED();
	if (n < 0 || n >= visible(list)) return INVALID_DEVICE;
	*d = list[n] + first;
	return OK;
}
int cuDeviceGetUuid_v2(char *uuid, int d) {
	char text[32];
	WANTED();
	if (d < first || d >= first + MAX_DEVICES) return INVALID_DEVICE;
	snprintf(text, sizeof text, "neso-fake-gpu-%02d", d - first);
	memcpy(uuid, text, 16);
	return OK;
}
int cuDevicePrimaryCtxRetain(void **c, int d) {
	WANTED();
	if (d < first || d >= first + MAX_DEVICES) return INVALID_DEVICE;
	*c = contexts + (d - first);
	__atomic_add_fetch(&retained, 1, __ATOMIC_SEQ_CST);
	return OK;
}
int cuDevicePrimaryCtxRelease_v2(int d) {
	if (d < first || d >= first + MAX_DEVICES) return INVALID_DEVICE;
	__atomic_sub_fetch(&retained, 1, __ATOMIC_SEQ_CST);
	return OK;
}
int cuCtxPushCurrent_v2(void *c) {
	WANTED();
	if ((char *)c < contexts || (char *)c >= contexts + MAX_DEVICES || depth == 16) return INVALID_CONTEXT;
	current[depth++] = c;
	return OK;
}
int cuCtxPopCurrent_v2(void **c) { CONTEXT(); *c = current[--depth]; return OK; }
int cuCtxSynchronize(void) {
	CONTEXT();
	WANTED();
	pthread_mutex_lock(&lock);
	work();
	pthread_mutex_unlock(&lock);
	note("synchronise", 0);
	return OK;
}

int cuMemAlloc_v2(address *p, size_t size) {
	char name[64];
	CONTEXT();
	WANTED();
	if (!size) return INVALID_VALUE;
	pthread_mutex_lock(&lock);
	region *r = NULL;
	if (folder()) {
		snprintf(name, sizeof name, "mem-%d-%d-%d", place(), getpid(), ++numbered);
		r = map(name, size, place(), 1, O_CREAT | O_EXCL);
	} else {
		for (r = regions; r < regions + MAX_REGIONS && r->refs; r++) {}
		if (r < regions + MAX_REGIONS)
			*r = (region){.at = (address)(size_t)calloc(1, size) ^ flip, .size = size, .device = place(), .refs = 1, .own = 1};
		else r = NULL;
	}
	if (r) *p = r->at;
	pthread_mutex_unlock(&lock);
	note("alloc", size);
	return r ? OK : OUT_OF_MEMORY;
}
int cuMemFree_v2(address p) {
	char path[4096];
	CONTEXT();
	WANTED();
	pthread_mutex_lock(&lock);
	work();
	region *r = containing(p, 1);
	int status = r && r->own && r->at == p ? OK : INVALID_VALUE;
	size_t size = 0;
	if (!status) {
		size = r->size;
		if (folder()) {
			if (is_open(r->name)) note("fault: freed while it is open", size);
			snprintf(path, sizeof path, "%s/%s", folder(), r->name);
			unlink(path);
		}
		unmap(r);
	}
	pthread_mutex_unlock(&lock);
	note(status ? "fault: freed what is no allocation" : "free", size);
	return status;
}
int cuMemGetAddressRange_v2(address *base, size_t *size, address p) {
	address start = (address)(size_t)memory ^ flip;
	*base = start;
	*size = sizeof memory;
	if (p >= start && p < start + sizeof memory) return OK;
	pthread_mutex_lock(&lock);
	region *r = containing(p, 1);
	if (r) { *base = r->at; *size = r->size; }
	pthread_mutex_unlock(&lock);
	return r ? OK : INVALID_VALUE;
}

int cuIpcGetMemHandle(handle *h, address p) {
	CONTEXT();
	WANTED();
	pthread_mutex_lock(&lock);
	region *r = containing(p, 1);
	int status = r && r->own && r->mapped ? OK : INVALID_VALUE;
	memset(h, 0, sizeof *h);
	if (!status) memcpy(h, r->name, sizeof h->reserved);
	pthread_mutex_unlock(&lock);
	return status;
}
int cuIpcOpenMemHandle_v2(address *p, handle h, unsigned flags) {
	int device, pid, number, bytes = 0;
	CONTEXT();
	WANTED();
	if (flags != 1) return INVALID_VALUE;
	while (bytes < 64 && h.reserved[bytes] == bytes + 1) bytes++;
	if (bytes == 64) {
		*p = ((address)(size_t)memory ^ flip) + 16;
		__atomic_add_fetch(&opened, 1, __ATOMIC_SEQ_CST);
		return OK;
	}
	h.reserved[63] = 0;
	if (!folder() || sscanf(h.reserved, "mem-%d-%d-%d", &device, &pid, &number) != 3) return INVALID_VALUE;
	if (pid == getpid() || device != place()) return INVALID_CONTEXT;
	pthread_mutex_lock(&lock);
	region *r = regions;
	while (r < regions + MAX_REGIONS && !(r->refs && !strcmp(r->name, h.reserved))) r++;
	if (r < regions + MAX_REGIONS) r->refs++;
	else r = map(h.reserved, 0, device, 0, 0);
	if (r) {
		*p = r->at;
		opened++;
		if (r->refs == 1) mark(r, 1);
	}
	pthread_mutex_unlock(&lock);
	if (r) note("open", r->size);
	return r ? OK : INVALID_VALUE;
}
int cuIpcCloseMemHandle(address p) {
	CONTEXT();
	WANTED();
	if (p == ((address)(size_t)memory ^ flip) + 16) {
		__atomic_sub_fetch(&opened, 1, __ATOMIC_SEQ_CST);
		return OK;
	}
	pthread_mutex_lock(&lock);
	work();
	region *r = containing(p, 1);
	int status = r && !r->own && r->at == p ? OK : INVALID_VALUE;
	size_t size = 0;
	if (!status) {
		size = r->size;
		opened--;
		if (!--r->refs) {
			r->refs = 1;
			mark(r, 0);
			unmap(r);
		}
	}
	pthread_mutex_unlock(&lock);
	note(status ? "fault: closed what is not open" : "close", size);
	return status;
}

int cuMemcpyHtoD_v2(address to, const void *from, size_t n) {
	CONTEXT();
	WANTED();
	if (beyond(to, n)) return INVALID_VALUE;
	pthread_mutex_lock(&lock);
	work();
	memcpy((void *)(size_t)(to ^ flip), from, n);
	pthread_mutex_unlock(&lock);
	note("htod", n);
	return OK;
}
int cuMemcpyDtoH_v2(void *to, address from, size_t n) {
	CONTEXT();
	WANTED();
	if (beyond(from, n)) return INVALID_VALUE;
	pthread_mutex_lock(&lock);
	work();
	memcpy(to, (void *)(size_t)(from ^ flip), n);
	pthread_mutex_unlock(&lock);
	note("dtoh", n);
	return OK;
}
int cuMemcpyDtoD_v2(address to, address from, size_t n) {
	CONTEXT();
	WANTED();
	if (beyond(to, n) || beyond(from, n)) return INVALID_VALUE;
	copy *c = malloc(sizeof *c);
	if (!c) return OUT_OF_MEMORY;
	*c = (copy){NULL, to, from, n};
	pthread_mutex_lock(&lock);
	*last = c;
	last = &c->next;
	pthread_mutex_unlock(&lock);
	note("dtod", n);
	return OK;
}
