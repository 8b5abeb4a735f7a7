/* A response cache that keeps everything in memory and writes down each call of the server to the file TELLS_LOG. What
 * stands in the file TELLS_DO it does in each call from then on: "crash lookup", "hang insert", ... */
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "triton/core/tritoncache.h"

#define TRY(call)                    \
  do {                               \
    TRITONSERVER_Error* e_ = (call); \
    if (e_) return e_;               \
  } while (0)
#define ERR(code, text) TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_##code, text)
#ifndef MAJOR
#define MAJOR TRITONCACHE_API_VERSION_MAJOR
#endif
#ifndef MINOR
#define MINOR TRITONCACHE_API_VERSION_MINOR
#endif

struct item { char* key; void* base; size_t size; struct item* next; };
static struct { pthread_mutex_t lock; struct item* items; } store = {PTHREAD_MUTEX_INITIALIZER, NULL};
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

static void tell(const char* format, ...) {
  const char* path = getenv("TELLS_LOG");
  if (!path) return;
  pthread_mutex_lock(&writing);
  FILE* f = fopen(path, "a");
  if (f) {
    va_list args;
    va_start(args, format);
    vfprintf(f, format, args);
    fputc('\n', f);
    va_end(args);
    fclose(f);
  }
  pthread_mutex_unlock(&writing);
}

static bool told_to(const char* what) {
  char text[256] = "";
  const char* path = getenv("TELLS_DO");
  FILE* f = path ? fopen(path, "r") : NULL;
  if (!f) return false;
  size_t n = fread(text, 1, sizeof text - 1, f);
  text[n] = 0;
  fclose(f);
  return strstr(text, what) != NULL;
}

static void misbehave(const char* call) {
  char what[64];
  snprintf(what, sizeof what, "crash %s", call);
  if (told_to(what)) *(volatile int*)8 = 1;
  snprintf(what, sizeof what, "abort %s", call);
  if (told_to(what)) abort();
  snprintf(what, sizeof what, "hang %s", call);
  if (told_to(what)) for (;;) pause();
}

static void answer(const char* what, TRITONSERVER_Error* e) {
  tell("  %s -> %s%s%s", what, e ? TRITONSERVER_ErrorCodeString(e) : "ok", e ? ": " : "", e ? TRITONSERVER_ErrorMessage(e) : "");
  TRITONSERVER_ErrorDelete(e);
}

static TRITONSERVER_MetricFamily* family;
static TRITONSERVER_Metric* lookups;

static TRITONSERVER_Error* measure(void) {
  TRITONSERVER_Parameter* label = TRITONSERVER_ParameterNew("cache", TRITONSERVER_PARAMETER_STRING, "tells");
  const TRITONSERVER_Parameter* labels[] = {label};
  TRY(TRITONSERVER_MetricFamilyNew(&family, TRITONSERVER_METRIC_KIND_COUNTER, "tells_lookups_total", "Look-ups"));
  TRY(TRITONSERVER_MetricNew(&lookups, family, labels, 1));
  TRITONSERVER_ParameterDelete(label);
  return NULL;
}

TRITONSERVER_Error* TRITONCACHE_CacheInitialize(TRITONCACHE_Cache** cache, const char* config) {
  uint32_t major = 9, minor = 9;
  TRY(TRITONCACHE_ApiVersion(&major, &minor));
  if (major != MAJOR || minor < MINOR) return ERR(UNSUPPORTED, "made for another version");
  tell("CacheInitialize version %u.%u config %s", major, minor, config);
  if (strstr(config, "\"refuse\"")) return ERR(INVALID_ARG, "it does not want to");
  if (strstr(config, "\"measure\"")) TRY(measure());
  misbehave("initialize");
  *cache = (TRITONCACHE_Cache*)&store;
  return NULL;
}

TRITONSERVER_Error* TRITONCACHE_CacheFinalize(TRITONCACHE_Cache* cache) {
  tell("CacheFinalize of %s", cache == (TRITONCACHE_Cache*)&store ? "ours" : "another");
  if (lookups) TRY(TRITONSERVER_MetricDelete(lookups));
  if (family) TRY(TRITONSERVER_MetricFamilyDelete(family));
  misbehave("finalize");
  return NULL;
}

static struct item* find(const char* key) {
  struct item* i = store.items;
  while (i && strcmp(i->key, key)) i = i->next;
  return i;
}

/* Wrong questions, about the entry of a lookup or an insertion. */
static void ask(TRITONCACHE_CacheEntry* entry, TRITONCACHE_Allocator* allocator, bool insert) {
  size_t n = 99;
  void* base = (void*)1;
  TRITONSERVER_BufferAttributes* attributes;
  if (TRITONSERVER_BufferAttributesNew(&attributes)) return;
  answer("BufferCount", TRITONCACHE_CacheEntryBufferCount(entry, &n));
  tell("  %zu buffers", n);
  answer("GetBuffer 0", TRITONCACHE_CacheEntryGetBuffer(entry, 0, &base, attributes));
  size_t size = 0;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_GPU;
  answer("ByteSize", TRITONSERVER_BufferAttributesByteSize(attributes, &size));
  answer("MemoryType", TRITONSERVER_BufferAttributesMemoryType(attributes, &type));
  tell("  base %s, size %s, type %d", base == (void*)1 ? "untouched" : base ? "set" : "null", size ? "above 0" : "0", (int)type);
  answer("GetBuffer behind the last", TRITONCACHE_CacheEntryGetBuffer(entry, 7, &base, attributes));
  answer("SetBuffer behind the last", TRITONCACHE_CacheEntrySetBuffer(entry, 7, &size, NULL));
  answer("GetBuffer without attributes", TRITONCACHE_CacheEntryGetBuffer(entry, insert ? 0 : 7, &base, NULL));
  if (insert) answer("SetBuffer null", TRITONCACHE_CacheEntrySetBuffer(entry, 0, NULL, NULL));
  if (insert) answer("Copy without a place", TRITONCACHE_Copy(allocator, entry));
  answer("AddBuffer null", TRITONCACHE_CacheEntryAddBuffer(entry, NULL, attributes));
  answer("AddBuffer without attributes", TRITONCACHE_CacheEntryAddBuffer(entry, &n, NULL));
  TRITONSERVER_BufferAttributesSetMemoryType(attributes, TRITONSERVER_MEMORY_GPU);
  answer("AddBuffer on a GPU", TRITONCACHE_CacheEntryAddBuffer(entry, &n, attributes));
  TRITONSERVER_BufferAttributesDelete(attributes);
}

TRITONSERVER_Error* TRITONCACHE_CacheLookup(
    TRITONCACHE_Cache* cache, const char* key, TRITONCACHE_CacheEntry* entry, TRITONCACHE_Allocator* allocator) {
  if (cache != (TRITONCACHE_Cache*)&store) return ERR(INTERNAL, "not this cache");
  misbehave("lookup");
  if (lookups) TRY(TRITONSERVER_MetricIncrement(lookups, 1));
  if (told_to("ask lookup")) ask(entry, allocator, false);
  if (told_to("fail lookup")) return ERR(INTERNAL, "no look-ups today");
  if (told_to("exit lookup")) exit(4);
  pthread_mutex_lock(&store.lock);
  struct item* i = find(key);
  tell("CacheLookup %s", i ? "hit" : "miss");
  TRITONSERVER_Error* e = i ? NULL : ERR(NOT_FOUND, "nothing under this key");
  TRITONSERVER_BufferAttributes* attributes = NULL;
  if (!e) e = TRITONSERVER_BufferAttributesNew(&attributes);
  size_t size = !i ? 0 : told_to("short lookup") ? i->size / 2 : told_to("empty lookup") ? 0 : i->size;
  if (!e) e = TRITONSERVER_BufferAttributesSetByteSize(attributes, size);
  if (!e) e = TRITONCACHE_CacheEntryAddBuffer(entry, i->base, attributes);
  if (!e && told_to("two lookup")) e = TRITONCACHE_CacheEntryAddBuffer(entry, i->base, attributes);
  if (!e && told_to("garbage lookup")) memset(i->base, 0x55, i->size);
  if (!e && !told_to("nocopy lookup")) e = TRITONCACHE_Copy(allocator, entry);
  if (!e && told_to("twice lookup")) e = TRITONCACHE_Copy(allocator, entry);
  if (attributes) TRITONSERVER_BufferAttributesDelete(attributes);
  pthread_mutex_unlock(&store.lock);
  return e;
}

TRITONSERVER_Error* TRITONCACHE_CacheInsert(
    TRITONCACHE_Cache* cache, const char* key, TRITONCACHE_CacheEntry* entry, TRITONCACHE_Allocator* allocator) {
  if (cache != (TRITONCACHE_Cache*)&store) return ERR(INTERNAL, "not this cache");
  misbehave("insert");
  if (told_to("ask insert")) ask(entry, allocator, true);
  if (told_to("fail insert")) return ERR(INTERNAL, "no insertions today");
  size_t n = 0, size = 0;
  void* base = NULL;
  TRITONSERVER_BufferAttributes* attributes;
  TRY(TRITONCACHE_CacheEntryBufferCount(entry, &n));
  TRY(TRITONSERVER_BufferAttributesNew(&attributes));
  TRITONSERVER_Error* e = TRITONCACHE_CacheEntryGetBuffer(entry, 0, &base, attributes);
  if (!e) e = TRITONSERVER_BufferAttributesByteSize(attributes, &size);
  TRITONSERVER_BufferAttributesDelete(attributes);
  if (e) return e;
  void* mine = malloc(size);
  e = TRITONCACHE_CacheEntrySetBuffer(entry, 0, mine, NULL);
  if (!e) e = TRITONCACHE_Copy(allocator, entry);
  pthread_mutex_lock(&store.lock);
  if (!e && find(key)) e = ERR(ALREADY_EXISTS, "there is something under this key");
  tell("CacheInsert of %zu buffers: %s", n, e ? TRITONSERVER_ErrorMessage(e) : "kept");
  if (!e) {
    struct item* i = malloc(sizeof *i);
    *i = (struct item){strdup(key), mine, size, store.items};
    store.items = i;
  } else {
    free(mine);
  }
  pthread_mutex_unlock(&store.lock);
  return e;
}
