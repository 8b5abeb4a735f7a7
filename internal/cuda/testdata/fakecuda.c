// A GPU driver with one device of ordinary memory, for tests. It checks what a
// real one would: that a context is current on the calling thread, and that
// nothing beyond an allocation is touched. The one handle it opens has the bytes
// 1 to 64, and stands for the last 240 bytes of an allocation of 256.
#include <stddef.h>
#include <string.h>
typedef struct { char reserved[64]; } handle;
typedef unsigned long long address;
static __thread int depth;
static int retained, opened;
static char memory[256];
int fakeInUse(void) { return retained * 1000 + opened; }
int cuInit(unsigned flags) { return flags ? 1 : 0; }
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDeviceGet(int *d, int n) { *d = 7; return n == 0 ? 0 : 101; }
int cuDevicePrimaryCtxRetain(void **c, int d) { if (d != 7) return 101; *c = memory; retained++; return 0; }
int cuDevicePrimaryCtxRelease_v2(int d) { retained--; return d == 7 ? 0 : 101; }
int cuCtxPushCurrent_v2(void *c) { depth++; return c == memory ? 0 : 201; }
int cuCtxPopCurrent_v2(void **c) { depth--; *c = memory; return 0; }
int cuIpcOpenMemHandle_v2(address *p, handle h, unsigned flags) {
	for (int i = 0; i < 64; i++) if (h.reserved[i] != i + 1) return 1;
	if (depth != 1 || flags != 1) return 201;
	*p = (address)memory + 16; opened++;
	return 0;
}
int cuIpcCloseMemHandle(address p) { if (depth != 1 || p != (address)memory + 16) return 201; opened--; return 0; }
int cuMemGetAddressRange_v2(address *base, size_t *size, address p) { *base = (address)memory; *size = sizeof memory; return p == *base + 16 ? 0 : 1; }
static int outside(address p, size_t n) { return depth != 1 || p < (address)memory || p + n > (address)memory + sizeof memory; }
int cuMemcpyHtoD_v2(address to, const void *from, size_t n) { if (outside(to, n)) return 1; memcpy((void *)to, from, n); return 0; }
int cuMemcpyDtoH_v2(void *to, address from, size_t n) { if (outside(from, n)) return 1; memcpy(to, (void *)from, n); return 0; }
