/* A backend that does nothing: it gives INPUT0 back as OUTPUT0. What remains is the
 * server, and its way to a library. */
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "triton/core/tritonbackend.h"

#define TRY(call)                    \
  do {                               \
    TRITONSERVER_Error* e_ = (call); \
    if (e_) return e_;               \
  } while (0)

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static TRITONSERVER_Error* answer(TRITONBACKEND_Request* request, TRITONBACKEND_Response* response) {
  TRITONBACKEND_Input* input;
  TRITONBACKEND_Output* output;
  TRITONSERVER_DataType datatype;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  const int64_t* shape;
  uint32_t dims, pieces;
  uint64_t size, n;
  int64_t id = 0;
  void* to;
  TRY(TRITONBACKEND_RequestInputByIndex(request, 0, &input));
  TRY(TRITONBACKEND_InputProperties(input, NULL, &datatype, &shape, &dims, &size, &pieces));
  TRY(TRITONBACKEND_ResponseOutput(response, &output, "OUTPUT0", datatype, shape, dims));
  TRY(TRITONBACKEND_OutputBuffer(output, &to, size, &type, &id));
  char* at = to;
  for (uint32_t i = 0; i < pieces; i++, at += n) {
    const void* from;
    TRY(TRITONBACKEND_InputBuffer(input, i, &from, &n, &type, &id));
    memcpy(at, from, n);
  }
  return NULL;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests,
                                                         uint32_t count) {
  uint64_t begin = now();
  for (uint32_t i = 0; i < count; i++) {
    TRITONBACKEND_Response* response;
    TRY(TRITONBACKEND_ResponseNew(&response, requests[i]));
    TRITONSERVER_Error* failed = answer(requests[i], response);
    TRY(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, failed));
    uint64_t end = now();
    TRY(TRITONBACKEND_ModelInstanceReportStatistics(instance, requests[i], !failed, begin, begin, end, end));
    TRY(TRITONBACKEND_RequestRelease(requests[i], TRITONSERVER_REQUEST_RELEASE_ALL));
  }
  uint64_t end = now();
  return TRITONBACKEND_ModelInstanceReportBatchStatistics(instance, count, begin, begin, end, end);
}
