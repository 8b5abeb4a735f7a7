/* Reports statistics: of each request, of the batch, of responses; well, or as the parameter "wrong" of the model says. */
#include "common.h"

static TRITONSERVER_Error* told(const char* what, TRITONSERVER_Error* e) {
  SAY("%s: %s", what, e ? TRITONSERVER_ErrorMessage(e) : "no error");
  TRITONSERVER_ErrorDelete(e);
  return NULL;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* instance) {
  return told("before a batch", TRITONBACKEND_ModelInstanceReportBatchStatistics(instance, 1, 1, 2, 3, 4));
}

static TRITONSERVER_Error* one(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request* request, uint64_t begin, uint64_t* from, uint64_t* to) {
  TRITONBACKEND_Response* response;
  TRITONBACKEND_Input* input;
  TRY(TRITONBACKEND_ResponseNew(&response, request));
  TRY(TRITONBACKEND_RequestInput(request, "IN0", &input));
  *from = now_ns();
  TRY(copy_to(response, input, "OUT0"));
  *to = now_ns();
  TRY(TRITONBACKEND_ResponseSetIntParameter(response, "computed", (int64_t)(*to - *from)));
  TRY(told("not in order", TRITONBACKEND_ModelInstanceReportStatistics(instance, request, true, begin, *to, *from, now_ns())));
  TRY(TRITONBACKEND_ModelInstanceReportStatistics(instance, request, true, begin, *from, *to, now_ns()));
  TRY(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, NULL));
  TRY(TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL));
  return told("released", TRITONBACKEND_ModelInstanceReportStatistics(instance, request, true, begin, *from, *to, now_ns()));
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  uint64_t begin = now_ns(), from = 0, to = 0;
  for (uint32_t i = 0; i < count; i++) told("request", one(instance, requests[i], begin, &from, &to));
  return told("batch", TRITONBACKEND_ModelInstanceReportBatchStatistics(instance, count, begin, from, to, now_ns()));
}
