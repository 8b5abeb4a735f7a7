/* What the test backends share: errors end the call, and names of the interface are short. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "triton/core/tritonbackend.h"

#define TRY(call)                    \
  do {                               \
    TRITONSERVER_Error* e_ = (call); \
    if (e_) return e_;               \
  } while (0)

#define ERR(text) TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, text)

/* One line to stderr, which is the server's log: in one piece, since other threads write lines too. */
static inline __attribute__((format(printf, 1, 2))) void say_line(const char* format, ...) {
  char line[4096];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(line, sizeof line - 1, format, args);
  va_end(args);
  size_t size = n < 0 ? 0 : (size_t)n < sizeof line - 2 ? (size_t)n : sizeof line - 2;
  line[size++] = '\n';
  fwrite(line, 1, size, stderr);
  fflush(stderr);
}
#define SAY(...) say_line(__VA_ARGS__)

static inline uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A parameter of the request as text, "" for none. */
static inline TRITONSERVER_Error* parameter(TRITONBACKEND_Request* request, const char* name, char* to, size_t room) {
  uint32_t n;
  to[0] = 0;
  TRY(TRITONBACKEND_RequestParameterCount(request, &n));
  for (uint32_t i = 0; i < n; i++) {
    const char* key;
    TRITONSERVER_ParameterType type;
    const void* value;
    TRY(TRITONBACKEND_RequestParameter(request, i, &key, &type, &value));
    if (strcmp(key, name) == 0 && type == TRITONSERVER_PARAMETER_STRING) snprintf(to, room, "%s", (const char*)value);
  }
  return NULL;
}

/* A copy of an input as an output of the response. */
static inline TRITONSERVER_Error* copy_to(TRITONBACKEND_Response* response, TRITONBACKEND_Input* input, const char* output) {
  TRITONSERVER_DataType datatype;
  const int64_t* shape;
  uint32_t dims, buffers;
  uint64_t size, at = 0;
  TRY(TRITONBACKEND_InputProperties(input, NULL, &datatype, &shape, &dims, &size, &buffers));
  TRITONBACKEND_Output* out;
  TRY(TRITONBACKEND_ResponseOutput(response, &out, output, datatype, shape, dims));
  void* to;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  int64_t id = 0;
  TRY(TRITONBACKEND_OutputBuffer(out, &to, size, &type, &id));
  for (uint32_t i = 0; i < buffers; i++) {
    const void* from;
    uint64_t n;
    TRY(TRITONBACKEND_InputBuffer(input, i, &from, &n, &type, &id));
    memcpy((char*)to + at, from, n);
    at += n;
  }
  return NULL;
}
