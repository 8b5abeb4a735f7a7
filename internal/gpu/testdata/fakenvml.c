// A management library with three GPUs, for tests. The last one tells nothing
// but its name. NESO_FAKE_GPUS leaves fewer.
#include <stdlib.h>
#include <string.h>
typedef unsigned long long u64;
struct gpu { const char *uuid, *name; int major, minor; };
static struct gpu gpus[3] = {
	{ "GPU-aaaa0000-0000-0000-0000-000000000000", "NVIDIA One", 8, 9 },
	{ "GPU-bbbb0000-0000-0000-0000-000000000000", "NVIDIA Two", 9, 0 },
	{ "GPU-bbcc0000-0000-0000-0000-000000000000", "NVIDIA Old", 5, 2 },
};
static int users;
static u64 energy = 5000;
int fakeUsers(void) { return users; }
int nvmlInit_v2(void) { users++; return 0; }
int nvmlShutdown(void) { if (!users) return 1; users--; return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) {
	const char *few = getenv("NESO_FAKE_GPUS");
	*n = few ? (unsigned)atoi(few) : 3;
	return users ? 0 : 1;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, struct gpu **h) { if (i > 2) return 2; *h = &gpus[i]; return 0; }
static int copy(const char *from, char *to, unsigned n) { if (strlen(from) >= n) return 7; strcpy(to, from); return 0; }
int nvmlDeviceGetUUID(struct gpu *g, char *to, unsigned n) { return copy(g->uuid, to, n); }
int nvmlDeviceGetName(struct gpu *g, char *to, unsigned n) { return copy(g->name, to, n); }
int nvmlDeviceGetCudaComputeCapability(struct gpu *g, int *major, int *minor) { *major = g->major; *minor = g->minor; return 0; }
#define TELLS if (!users) return 1; if (g == &gpus[2]) return 3
int nvmlDeviceGetMemoryInfo(struct gpu *g, u64 *m) { TELLS; m[0] = 1000; m[1] = 750; m[2] = 250; return 0; }
int nvmlDeviceGetUtilizationRates(struct gpu *g, unsigned *u) { TELLS; u[0] = 37; u[1] = 12; return 0; }
int nvmlDeviceGetPowerUsage(struct gpu *g, unsigned *mw) { TELLS; *mw = 71500; return 0; }
int nvmlDeviceGetEnforcedPowerLimit(struct gpu *g, unsigned *mw) { TELLS; *mw = 300000; return 0; }
int nvmlDeviceGetTotalEnergyConsumption(struct gpu *g, u64 *mj) { TELLS; *mj = energy; energy += 1000; return 0; }
