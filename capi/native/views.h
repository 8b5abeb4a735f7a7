#ifndef NESO_NATIVE_VIEWS_H
#define NESO_NATIVE_VIEWS_H

#include <stdint.h>

/* What libraries read of a request and its inputs, in memory of C, so that to read it takes no call of Go. There is a
 * view for each place of a handle's table, and its memory is never freed: whoever reads a view reads live before and
 * after, and only if both are the handle is what was read the handle's. Package native fills views in, and ends them
 * before it ends the object. What has no view, or a handle that is none, is asked of package native, which answers
 * for misuse. */

enum { NESO_VIEW_INDEX_BITS = 22, NESO_VIEW_CHUNK_BITS = 10, NESO_VIEW_CHUNK = 1 << NESO_VIEW_CHUNK_BITS };
enum { NESO_VIEW_CHUNKS = 1 << (NESO_VIEW_INDEX_BITS - NESO_VIEW_CHUNK_BITS) };
enum { NESO_VIEW_NAMES = 8 }; /* a request with more inputs, or more requested outputs, has no view */

typedef struct {
  uint64_t live; /* the handle, 0 for none */
  uintptr_t name, shape, data;
  uint64_t size;
  uint32_t datatype, dims;
} neso_input_view;

typedef struct {
  uint64_t live;
  uintptr_t id;
  uint64_t correlation, timeout;
  uint32_t flags, inputs, outputs, parameters;
  uint32_t numbered, traced; /* whether the correlation id is a number, and whether there is a trace */
  uint64_t input_handles[NESO_VIEW_NAMES];
  uintptr_t input_names[NESO_VIEW_NAMES], output_names[NESO_VIEW_NAMES];
} neso_request_view;

extern neso_input_view* neso_input_views[NESO_VIEW_CHUNKS];
extern neso_request_view* neso_request_views[NESO_VIEW_CHUNKS];

#endif
