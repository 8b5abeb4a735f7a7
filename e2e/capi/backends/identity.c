/* Copies each input IN... to the output OUT.... */
#include "order.h"

TRITONSERVER_Error* TRITONBACKEND_Initialize(TRITONBACKEND_Backend* backend) {
  uint32_t major, minor;
  TRY(TRITONBACKEND_ApiVersion(&major, &minor));
  if (major != TRITONBACKEND_API_VERSION_MAJOR || minor < TRITONBACKEND_API_VERSION_MINOR) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNSUPPORTED, "triton backend API version does not support this backend");
  }
  const char* name;
  TRY(TRITONBACKEND_BackendName(backend, &name));
  SAY("order: Initialize %s", name);
  return NULL;
}

TRITONSERVER_Error* TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend* backend, TRITONBACKEND_BackendAttribute* a) {
  (void)backend;
  SAY("order: GetBackendAttribute");
  return TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(a, TRITONSERVER_INSTANCEGROUPKIND_CPU, 0, NULL, 0);
}

TRITONSERVER_Error* TRITONBACKEND_Finalize(TRITONBACKEND_Backend* backend) {
  (void)backend;
  SAY("order: Finalize");
  return NULL;
}

static TRITONSERVER_Error* answer(TRITONBACKEND_Request* request, TRITONBACKEND_Response* response) {
  uint32_t n;
  TRY(TRITONBACKEND_RequestInputCount(request, &n));
  for (uint32_t i = 0; i < n; i++) {
    TRITONBACKEND_Input* input;
    const char* name;
    char output[64];
    TRY(TRITONBACKEND_RequestInputByIndex(request, i, &input));
    TRY(TRITONBACKEND_InputProperties(input, &name, NULL, NULL, NULL, NULL, NULL));
    snprintf(output, sizeof output, "OUT%s", name + 2);
    TRY(copy_to(response, input, output));
  }
  return NULL;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  uint64_t begin = now_ns();
  for (uint32_t i = 0; i < count; i++) {
    TRITONBACKEND_Response* response;
    TRY(TRITONBACKEND_ResponseNew(&response, requests[i]));
    TRITONSERVER_Error* failed = answer(requests[i], response);
    TRY(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, failed));
    uint64_t end = now_ns();
    TRY(TRITONBACKEND_ModelInstanceReportStatistics(instance, requests[i], !failed, begin, begin, end, end));
    if (failed) TRITONSERVER_ErrorDelete(failed);
    TRY(TRITONBACKEND_RequestRelease(requests[i], TRITONSERVER_REQUEST_RELEASE_ALL));
  }
  uint64_t end = now_ns();
  return TRITONBACKEND_ModelInstanceReportBatchStatistics(instance, count, begin, begin, end, end);
}
