/* Answers each request by the number of its batch and how many requests that has. A batch of a negative number is held
 * until the file LET_GO is there. */
#include "order.h"

static int batches;

static TRITONSERVER_Error* hold(TRITONBACKEND_Request* request) {
  TRITONBACKEND_Input* input;
  const void* data;
  uint64_t size;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  int64_t id = 0;
  TRY(TRITONBACKEND_RequestInput(request, "IN0", &input));
  TRY(TRITONBACKEND_InputBuffer(input, 0, &data, &size, &type, &id));
  while (*(const int*)data < 0 && access(getenv("LET_GO"), F_OK)) usleep(1000);
  return NULL;
}

static TRITONSERVER_Error* answer(TRITONBACKEND_Response* response, int count) {
  TRITONBACKEND_Output* out;
  int64_t shape[] = {1, 2};
  void* to;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  int64_t id = 0;
  TRY(TRITONBACKEND_ResponseOutput(response, &out, "OUT0", TRITONSERVER_TYPE_INT32, shape, 2));
  TRY(TRITONBACKEND_OutputBuffer(out, &to, 8, &type, &id));
  ((int*)to)[0] = batches;
  ((int*)to)[1] = count;
  return NULL;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  (void)instance;
  batches++;
  TRY(hold(requests[0]));
  for (uint32_t i = 0; i < count; i++) {
    TRITONBACKEND_Response* response;
    TRY(TRITONBACKEND_ResponseNew(&response, requests[i]));
    TRITONSERVER_Error* e = answer(response, (int)count);
    TRY(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, e));
    TRITONSERVER_ErrorDelete(e);
    TRY(TRITONBACKEND_RequestRelease(requests[i], TRITONSERVER_REQUEST_RELEASE_ALL));
  }
  return NULL;
}
