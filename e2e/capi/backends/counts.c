/* Numbers its requests in the order in which it is given them. A request whose input is not 0 lasts until it is cancelled. */
#include "common.h"

static TRITONSERVER_Error* answer(TRITONBACKEND_Request* request, int32_t number) {
  TRITONBACKEND_Response* response;
  TRITONBACKEND_Input* input;
  TRITONBACKEND_Output* output;
  const int64_t* shape;
  uint32_t dims;
  uint64_t size;
  const void* n;
  int32_t* to;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  int64_t id = 0;
  bool over = false;
  TRY(TRITONBACKEND_RequestInput(request, "N", &input));
  TRY(TRITONBACKEND_InputProperties(input, NULL, NULL, &shape, &dims, NULL, NULL));
  TRY(TRITONBACKEND_InputBuffer(input, 0, &n, &size, &type, &id));
  while (*(const int32_t*)n && !over) {
    usleep(1000);
    TRY(TRITONBACKEND_RequestIsCancelled(request, &over));
  }
  TRY(TRITONBACKEND_ResponseNew(&response, request));
  TRY(TRITONBACKEND_ResponseOutput(response, &output, "ORDER", TRITONSERVER_TYPE_INT32, shape, dims));
  TRY(TRITONBACKEND_OutputBuffer(output, (void**)&to, 4, &type, &id));
  *to = number;
  TRY(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, NULL));
  return TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL);
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  static int32_t number;
  (void)instance;
  for (uint32_t i = 0; i < count; i++) {
    TRITONSERVER_Error* e = answer(requests[i], ++number);
    if (!e) continue;
    SAY("counts: %s", TRITONSERVER_ErrorMessage(e));
    abort();
  }
  return NULL;
}
