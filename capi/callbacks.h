/* Calls of functions that C programs hand over. Objects and memory of theirs are
 * numbers here: what a program calls a pointer need not be one. */
#ifndef NESO_CAPI_CALLBACKS_H
#define NESO_CAPI_CALLBACKS_H

#include <stddef.h>
#include <stdint.h>

typedef uintptr_t word;

typedef word (*alloc_fn)(word, word, size_t, int, int64_t, word, word*, word*, int*, int64_t*);
typedef word (*attributes_fn)(word, word, word, word, word);
typedef word (*query_fn)(word, word, word, size_t*, int*, int64_t*);
typedef word (*free_fn)(word, word, word, size_t, int, int64_t);
typedef word (*start_fn)(word, word);
typedef void (*activity_fn)(word, int, uint64_t, word);
typedef void (*tensor_fn)(word, int, word, int, word, size_t, const int64_t*, uint64_t, int, int64_t, word);
typedef void (*trace_release_fn)(word, word);
typedef void (*notice_fn)(word, uint32_t, word);

/* What alloc_fn is given and gives back. */
typedef struct { word buffer, userp; int type; int64_t id; } allocation;

static inline word call_start(word f, word allocator, word userp) { return ((start_fn)f)(allocator, userp); }
static inline word call_alloc(word f, word allocator, word name, size_t size, word userp, allocation* a) {
  return ((alloc_fn)f)(allocator, name, size, a->type, a->id, userp, &a->buffer, &a->userp, &a->type, &a->id);
}
static inline word call_attributes(word f, word allocator, word name, word attributes, word userp, word buffer_userp) {
  return ((attributes_fn)f)(allocator, name, attributes, userp, buffer_userp);
}
static inline word call_query(word f, word allocator, word userp, word name, size_t* size, int* type, int64_t* id) {
  return ((query_fn)f)(allocator, userp, name, size, type, id);
}
static inline word call_free(word f, word allocator, word buffer, word userp, size_t size, int type, int64_t id) {
  return ((free_fn)f)(allocator, buffer, userp, size, type, id);
}
static inline void call_activity(word f, word trace, int activity, uint64_t ns, word userp) {
  ((activity_fn)f)(trace, activity, ns, userp);
}
static inline void call_tensor(word f, word trace, int activity, word name, int datatype, word base, size_t size, word shape,
                               uint64_t dims, word userp) {
  ((tensor_fn)f)(trace, activity, name, datatype, base, size, (const int64_t*)shape, dims, 0, 0, userp);
}
static inline void call_trace_release(word f, word trace, word userp) { ((trace_release_fn)f)(trace, userp); }
/* a request that is let go, or a response */
static inline void call_notice(word f, word object, uint32_t flags, word userp) { ((notice_fn)f)(object, flags, userp); }

#endif
