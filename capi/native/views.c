#include "views.h"

#include <stddef.h>
#include <string.h>

#include "_cgo_export.h"

neso_input_view* neso_input_views[NESO_VIEW_CHUNKS];
neso_request_view* neso_request_views[NESO_VIEW_CHUNKS];

enum { INDEX_MASK = (1 << NESO_VIEW_INDEX_BITS) - 1, IN_CHUNK = NESO_VIEW_CHUNK - 1 };

/* VIEW puts a pointer to the view of a handle into v, null for none. */
#define VIEW(v, views, h)                                                                              \
  do {                                                                                                 \
    uint32_t at_ = (uint32_t)(h) & INDEX_MASK;                                                         \
    (v) = __atomic_load_n(&(views)[at_ >> NESO_VIEW_CHUNK_BITS], __ATOMIC_ACQUIRE);                    \
    if (v) (v) += at_ & IN_CHUNK;                                                                      \
    if ((v) && (!(h) || __atomic_load_n(&(v)->live, __ATOMIC_ACQUIRE) != (uint64_t)(h))) (v) = NULL;   \
  } while (0)

/* FIELD reads one field, which another thread may be filling in for another handle. */
#define FIELD(v, name) __atomic_load_n(&(v)->name, __ATOMIC_RELAXED)

/* SAME reports whether what was read of a view was the handle's. */
#define SAME(v, h) (__atomic_thread_fence(__ATOMIC_ACQUIRE), __atomic_load_n(&(v)->live, __ATOMIC_RELAXED) == (uint64_t)(h))

#define PUT(type, to, value)                    \
  do {                                          \
    if (to) *(type*)(to) = (type)(value);       \
  } while (0)

/* NUMBER defines a function that puts one number of a request. */
#define NUMBER(function, type, name)                         \
  uintptr_t function(uintptr_t h, uintptr_t to) {            \
    neso_request_view* v;                                    \
    VIEW(v, neso_request_views, h);                          \
    if (v) {                                                 \
      type value = (type)FIELD(v, name);                     \
      if (SAME(v, h)) {                                      \
        PUT(type, to, value);                                \
        return 0;                                            \
      }                                                      \
    }                                                        \
    return neso_asked_##function(h, to);                     \
  }

NUMBER(TRITONBACKEND_RequestInputCount, uint32_t, inputs)
NUMBER(TRITONBACKEND_RequestOutputCount, uint32_t, outputs)
NUMBER(TRITONBACKEND_RequestParameterCount, uint32_t, parameters)
NUMBER(TRITONBACKEND_RequestFlags, uint32_t, flags)
NUMBER(TRITONBACKEND_InferenceRequestTimeoutMicroseconds, uint64_t, timeout)
NUMBER(TRITONBACKEND_RequestId, uintptr_t, id)

uintptr_t TRITONBACKEND_RequestCorrelationId(uintptr_t h, uintptr_t to) {
  neso_request_view* v;
  VIEW(v, neso_request_views, h);
  if (v && FIELD(v, numbered)) {
    uint64_t value = FIELD(v, correlation);
    if (SAME(v, h)) {
      PUT(uint64_t, to, value);
      return 0;
    }
  }
  return neso_asked_TRITONBACKEND_RequestCorrelationId(h, to);
}

uintptr_t TRITONBACKEND_RequestTrace(uintptr_t h, uintptr_t to) {
  neso_request_view* v;
  VIEW(v, neso_request_views, h);
  if (v && !FIELD(v, traced) && SAME(v, h)) {
    PUT(uintptr_t, to, 0);
    return 0;
  }
  return neso_asked_TRITONBACKEND_RequestTrace(h, to);
}

/* LISTED defines a function that puts one of a request's list. */
#define LISTED(function, type, count, list)                  \
  uintptr_t function(uintptr_t h, uint32_t index, uintptr_t to) { \
    neso_request_view* v;                                    \
    VIEW(v, neso_request_views, h);                          \
    if (v && index < NESO_VIEW_NAMES && index < FIELD(v, count)) { \
      type value = (type)FIELD(v, list[index]);              \
      if (SAME(v, h)) {                                      \
        PUT(type, to, value);                                \
        return 0;                                            \
      }                                                      \
    }                                                        \
    return neso_asked_##function(h, index, to);              \
  }

LISTED(TRITONBACKEND_RequestInputName, uintptr_t, inputs, input_names)
LISTED(TRITONBACKEND_RequestInputByIndex, uintptr_t, inputs, input_handles)
LISTED(TRITONBACKEND_RequestOutputName, uintptr_t, outputs, output_names)

uintptr_t TRITONBACKEND_RequestInput(uintptr_t h, uintptr_t name, uintptr_t to) {
  neso_request_view* v;
  VIEW(v, neso_request_views, h);
  uint32_t n = v && name ? FIELD(v, inputs) : 0;
  for (uint32_t k = 0; k < n && k < NESO_VIEW_NAMES; k++) {
    uintptr_t known = FIELD(v, input_names[k]), input = FIELD(v, input_handles[k]);
    if (!SAME(v, h)) break;
    if (strcmp((const char*)known, (const char*)name)) continue;
    PUT(uintptr_t, to, input);
    return 0;
  }
  return neso_asked_TRITONBACKEND_RequestInput(h, name, to);
}

uintptr_t TRITONBACKEND_InputProperties(uintptr_t h, uintptr_t name, uintptr_t datatype, uintptr_t shape, uintptr_t dims,
                                        uintptr_t size, uintptr_t count) {
  neso_input_view* v;
  VIEW(v, neso_input_views, h);
  if (v) {
    uintptr_t called = FIELD(v, name), shaped = FIELD(v, shape);
    uint64_t bytes = FIELD(v, size);
    uint32_t type = FIELD(v, datatype), rank = FIELD(v, dims);
    if (SAME(v, h)) {
      PUT(uintptr_t, name, called);
      PUT(int, datatype, type);
      PUT(uintptr_t, shape, shaped);
      PUT(uint32_t, dims, rank);
      PUT(uint64_t, size, bytes);
      PUT(uint32_t, count, bytes > 0);
      return 0;
    }
  }
  return neso_asked_TRITONBACKEND_InputProperties(h, name, datatype, shape, dims, size, count);
}

/* The server has one copy of an input, whatever the host policy. */
uintptr_t TRITONBACKEND_InputPropertiesForHostPolicy(uintptr_t h, uintptr_t policy, uintptr_t name, uintptr_t datatype,
                                                     uintptr_t shape, uintptr_t dims, uintptr_t size, uintptr_t count) {
  (void)policy;
  return TRITONBACKEND_InputProperties(h, name, datatype, shape, dims, size, count);
}

uintptr_t TRITONBACKEND_InputBuffer(uintptr_t h, uint32_t index, uintptr_t buffer, uintptr_t size, uintptr_t kind, uintptr_t id) {
  neso_input_view* v;
  VIEW(v, neso_input_views, h);
  if (v && index == 0) {
    uintptr_t data = FIELD(v, data);
    uint64_t bytes = FIELD(v, size);
    if (SAME(v, h)) {
      PUT(uintptr_t, buffer, bytes ? data : 0);
      PUT(uint64_t, size, bytes);
      PUT(int, kind, 0); /* TRITONSERVER_MEMORY_CPU */
      PUT(int64_t, id, 0);
      return 0;
    }
  }
  return neso_asked_TRITONBACKEND_InputBuffer(h, index, buffer, size, kind, id);
}

uintptr_t TRITONBACKEND_InputBufferForHostPolicy(uintptr_t h, uintptr_t policy, uint32_t index, uintptr_t buffer, uintptr_t size,
                                                 uintptr_t kind, uintptr_t id) {
  (void)policy;
  return TRITONBACKEND_InputBuffer(h, index, buffer, size, kind, id);
}
