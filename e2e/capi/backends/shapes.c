/* Copies IN0 to OUT0 and the shape tensor INS to OUTS, but for the parameter "plain", and says how many requests came together and
 * what shape INS had. */
#include "common.h"

static TRITONSERVER_Error* answer(TRITONBACKEND_Request* request, TRITONBACKEND_Response* response, uint32_t count) {
  TRITONBACKEND_Input* input;
  const int64_t* shape;
  uint32_t dims;
  uint64_t size;
  char plain[8];
  TRY(TRITONBACKEND_RequestInput(request, "IN0", &input));
  TRY(copy_to(response, input, "OUT0"));
  TRY(TRITONBACKEND_RequestInput(request, "INS", &input));
  TRY(TRITONBACKEND_InputProperties(input, NULL, NULL, &shape, &dims, &size, NULL));
  TRY(parameter(request, "plain", plain, sizeof plain));
  if (!*plain) TRY(copy_to(response, input, "OUTS"));
  TRY(TRITONBACKEND_ResponseSetIntParameter(response, "together", count));
  TRY(TRITONBACKEND_ResponseSetIntParameter(response, "dims", dims));
  TRY(TRITONBACKEND_ResponseSetIntParameter(response, "values", shape[0]));
  return TRITONBACKEND_ResponseSetIntParameter(response, "size", size);
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  (void)instance;
  for (uint32_t i = 0; i < count; i++) {
    TRITONBACKEND_Response* response;
    TRY(TRITONBACKEND_ResponseNew(&response, requests[i]));
    TRITONSERVER_Error* e = answer(requests[i], response, count);
    TRITONSERVER_ErrorDelete(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, e));
    TRITONSERVER_ErrorDelete(e);
    TRITONSERVER_ErrorDelete(TRITONBACKEND_RequestRelease(requests[i], TRITONSERVER_REQUEST_RELEASE_ALL));
  }
  return NULL;
}
