/* Between a server and a library that keeps responses. */
#ifndef NESO_TRITONCACHE_H
#define NESO_TRITONCACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "triton/core/tritonserver.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_COMPILING_TRITONCACHE) && defined(__GNUC__)
#define TRITONCACHE_DECLSPEC __attribute__((__visibility__("default")))
#else
#define TRITONCACHE_DECLSPEC
#endif
/* What a library of a user has; it is visible unless the library says otherwise. */
#ifndef TRITONCACHE_ISPEC
#define TRITONCACHE_ISPEC
#endif

typedef struct TRITONCACHE_Cache TRITONCACHE_Cache;
typedef struct TRITONCACHE_CacheEntry TRITONCACHE_CacheEntry;
typedef struct TRITONCACHE_Allocator TRITONCACHE_Allocator;

/* A program built against a version runs with every later one of the same major number. */
#define TRITONCACHE_API_VERSION_MAJOR 0
#define TRITONCACHE_API_VERSION_MINOR 1

/* ---- Implemented by the cache ---- */

/* Config = JSON object of strings from --cache-config. */
TRITONCACHE_ISPEC TRITONSERVER_Error* TRITONCACHE_CacheInitialize(TRITONCACHE_Cache** cache, const char* config);
/* Miss -> NOT_FOUND. */
TRITONCACHE_ISPEC TRITONSERVER_Error* TRITONCACHE_CacheLookup(TRITONCACHE_Cache* cache, const char* key,
    TRITONCACHE_CacheEntry* entry, TRITONCACHE_Allocator* allocator);
/* Present -> ALREADY_EXISTS. */
TRITONCACHE_ISPEC TRITONSERVER_Error* TRITONCACHE_CacheInsert(TRITONCACHE_Cache* cache, const char* key,
    TRITONCACHE_CacheEntry* entry, TRITONCACHE_Allocator* allocator);
TRITONCACHE_ISPEC TRITONSERVER_Error* TRITONCACHE_CacheFinalize(TRITONCACHE_Cache* cache);

/* ---- Called by the cache ---- */

TRITONCACHE_DECLSPEC TRITONSERVER_Error* TRITONCACHE_ApiVersion(uint32_t* major, uint32_t* minor);
/* CPU memory only. */
TRITONCACHE_DECLSPEC TRITONSERVER_Error* TRITONCACHE_CacheEntryAddBuffer(TRITONCACHE_CacheEntry* entry, void* base,
    TRITONSERVER_BufferAttributes* buffer_attributes);
/* Attributes object supplied by caller and filled. */
TRITONCACHE_DECLSPEC TRITONSERVER_Error* TRITONCACHE_CacheEntryGetBuffer(TRITONCACHE_CacheEntry* entry, size_t index,
    void** base, TRITONSERVER_BufferAttributes* buffer_attributes);
/* Attributes optional. */
TRITONCACHE_DECLSPEC TRITONSERVER_Error* TRITONCACHE_CacheEntrySetBuffer(TRITONCACHE_CacheEntry* entry, size_t index,
    void* new_base, TRITONSERVER_BufferAttributes* buffer_attributes);
/* Moves bytes between server buffers and the buffers set in the entry. */
TRITONCACHE_DECLSPEC TRITONSERVER_Error* TRITONCACHE_Copy(TRITONCACHE_Allocator* allocator,
    TRITONCACHE_CacheEntry* entry);
TRITONCACHE_DECLSPEC TRITONSERVER_Error* TRITONCACHE_CacheEntryBufferCount(TRITONCACHE_CacheEntry* entry,
    size_t* count);

#ifdef __cplusplus
}
#endif

#endif
