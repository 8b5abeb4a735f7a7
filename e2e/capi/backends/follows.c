/* What it says is what the server says: times and sizes that it makes up, requests that it counts as failures, a
 * configuration that it sets and reads again, a state whose buffer it asks for twice, devices and the host policy. */
#include "common.h"

static void told(const char* what, TRITONSERVER_Error* e) {
  SAY("%s: %s", what, e ? TRITONSERVER_ErrorMessage(e) : "no error");
  TRITONSERVER_ErrorDelete(e);
}

static TRITONSERVER_Error* say_config(TRITONBACKEND_Model* model, const char* when) {
  TRITONSERVER_Message* config;
  const char* base;
  size_t size;
  TRY(TRITONBACKEND_ModelConfig(model, 1, &config));
  TRY(TRITONSERVER_MessageSerializeToJson(config, &base, &size));
  SAY("config %s: %.*s", when, (int)size, base);
  return TRITONSERVER_MessageDelete(config);
}

static TRITONSERVER_Error* set(TRITONBACKEND_Model* model, const char* json) {
  TRITONSERVER_Message* message;
  TRY(TRITONSERVER_MessageNewFromSerializedJson(&message, json, strlen(json)));
  TRITONSERVER_Error* e = TRITONBACKEND_ModelSetConfig(model, 1, message);
  TRITONSERVER_ErrorDelete(TRITONSERVER_MessageDelete(message));
  return e;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model) {
  const char* name;
  bool may;
  TRY(TRITONBACKEND_ModelName(model, &name));
  TRY(TRITONBACKEND_ModelAutoCompleteConfig(model, &may));
  if (strcmp(name, "completed") || !may) return NULL;
  told("unknown", set(model, "{\"colour\":1}"));
  TRY(say_config(model, "before"));
  TRY(set(model, "{\"max_batch_size\":4,\"input\":[{\"name\":\"IN0\",\"data_type\":\"TYPE_INT32\",\"dims\":[-1]}],"
                 "\"output\":[{\"name\":\"OUT0\",\"data_type\":\"TYPE_INT32\",\"dims\":[-1]}]}"));
  return say_config(model, "after");
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* instance) {
  uint32_t n;
  const char *kind, *base;
  int64_t id;
  size_t size;
  TRITONSERVER_Message* policy;
  TRY(TRITONBACKEND_ModelInstanceSecondaryDeviceCount(instance, &n));
  for (uint32_t i = 0; i < n; i++) {
    TRY(TRITONBACKEND_ModelInstanceSecondaryDeviceProperties(instance, i, &kind, &id));
    SAY("secondary device: %s %d", kind, (int)id);
  }
  TRY(TRITONBACKEND_ModelInstanceHostPolicy(instance, &policy));
  TRY(TRITONSERVER_MessageSerializeToJson(policy, &base, &size));
  SAY("policy: %.*s", (int)size, base);
  return NULL;
}

/* The state is one more than it was. */
static TRITONSERVER_Error* count(TRITONBACKEND_Request* request) {
  TRITONBACKEND_State *state, *other;
  TRITONBACKEND_Input* input;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  int64_t id = 0, shape[] = {1, 1};
  const void* was;
  uint64_t size;
  int32_t* to;
  uint32_t outputs;
  told("another state", TRITONBACKEND_StateNew(&other, request, "NONE", TRITONSERVER_TYPE_INT32, shape, 2));
  TRY(TRITONBACKEND_RequestOutputCount(request, &outputs));
  SAY("outputs asked for: %u", outputs);
  TRY(TRITONBACKEND_StateNew(&state, request, "STATE_OUT", TRITONSERVER_TYPE_INT32, shape, 2));
  told("update before", TRITONBACKEND_StateUpdate(state));
  TRY(TRITONBACKEND_StateBuffer(state, (void**)&to, 4, &type, &id));
  TRY(TRITONBACKEND_RequestInput(request, "STATE_IN", &input));
  TRY(TRITONBACKEND_InputBuffer(input, 0, &was, &size, &type, &id));
  *to = *(const int32_t*)was + 1;
  int32_t* again;
  TRY(TRITONBACKEND_StateBuffer(state, (void**)&again, 4, &type, &id));
  SAY("the same buffer: %d, holds %d", again == to, *again);
  return TRITONBACKEND_StateUpdate(state);
}

static TRITONSERVER_Error* one(TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request* request) {
  TRITONBACKEND_Response* response;
  TRITONBACKEND_Input* input;
  char what[16];
  TRY(parameter(request, "do", what, sizeof what));
  if (!strcmp(what, "count")) TRY(count(request));
  TRY(TRITONBACKEND_ResponseNew(&response, request));
  TRY(TRITONBACKEND_RequestInput(request, "IN0", &input));
  TRY(copy_to(response, input, "OUT0"));
  TRY(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, NULL));
  /* The answer is on its way by now, and what is said of it counts all the same. */
  uint64_t t = now_ns();
  if (!strcmp(what, "times")) {
    TRY(TRITONBACKEND_ModelInstanceReportStatistics(instance, request, true, t, t + 1000, t + 3000, t + 6000));
    TRY(TRITONBACKEND_ModelInstanceReportBatchStatistics(instance, 5, t, t + 10, t + 30, t + 60));
  } else if (!strcmp(what, "failed")) {
    TRY(TRITONBACKEND_ModelInstanceReportStatistics(instance, request, false, 9, 0, 0, 0));
  }
  return TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL);
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    TRITONSERVER_Error* e = one(instance, requests[i]);
    if (e) told("execute", e);
  }
  return NULL;
}
