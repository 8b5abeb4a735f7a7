/* A batching library: a batch has requests whose first element is that of its first request. Some numbers make it
 * misbehave. */
#include "../backends/common.h"

struct batch {
  int first, requests;
};

TRITONSERVER_Error* TRITONBACKEND_ModelBatcherInitialize(TRITONBACKEND_Batcher** batcher, TRITONBACKEND_Model* model) {
  const char* name;
  TRY(TRITONBACKEND_ModelName(model, &name));
  SAY("order: BatcherInitialize %s", name);
  if (strstr(name, "refuses")) return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "not for this model");
  *batcher = (TRITONBACKEND_Batcher*)strdup(name);
  return NULL;
}

TRITONSERVER_Error* TRITONBACKEND_ModelBatcherFinalize(TRITONBACKEND_Batcher* batcher) {
  SAY("order: BatcherFinalize %s", (const char*)batcher);
  free(batcher);
  return NULL;
}

TRITONSERVER_Error* TRITONBACKEND_ModelBatchInitialize(const TRITONBACKEND_Batcher* batcher, void** userp) {
  (void)batcher;
  *userp = calloc(1, sizeof(struct batch));
  return NULL;
}

TRITONSERVER_Error* TRITONBACKEND_ModelBatchFinalize(void* userp) {
  free(userp);
  return NULL;
}

static void misuse(TRITONBACKEND_Request* request) {
  TRITONBACKEND_Response* response;
  TRITONBACKEND_ResponseFactory* factory;
  TRITONSERVER_Error* all[] = {
      TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL),
      TRITONBACKEND_ResponseNew(&response, request),
      TRITONBACKEND_ResponseFactoryNew(&factory, request),
  };
  for (int i = 0; i < 3; i++) {
    SAY("misuse: %s", all[i] ? TRITONSERVER_ErrorMessage(all[i]) : "allowed");
    TRITONSERVER_ErrorDelete(all[i]);
  }
}

TRITONSERVER_Error* TRITONBACKEND_ModelBatchIncludeRequest(TRITONBACKEND_Request* request, void* userp, bool* include) {
  struct batch* b = userp;
  TRITONBACKEND_Input* input;
  const void* data;
  uint64_t size;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  int64_t id = 0;
  TRY(TRITONBACKEND_RequestInput(request, "IN0", &input));
  TRY(TRITONBACKEND_InputBuffer(input, 0, &data, &size, &type, &id));
  int first = *(const int*)data;
  if (first == 100) misuse(request);
  if (first == 101) return ERR("it will not say");
  if (first == 102) abort();
  for (; first == 103; usleep(10000)) {
    const char* gate = getenv("LET_GO");
    if (gate && !access(gate, F_OK)) break;
  }
  if (b->requests++ == 0) b->first = first;
  *include = b->first == first;
  return NULL;
}
