/* Asks the server all that a backend may ask, also what it should not, and writes down the answers in the file that
 * QUESTIONS names: what two servers answer can be compared. A request's parameter "do" says what is done with it. */
#include <stdarg.h>

#include "common.h"

static void tell(const char* format, ...) {
  const char* path = getenv("QUESTIONS");
  FILE* f = path ? fopen(path, "a") : NULL;
  if (!f) return;
  va_list args;
  va_start(args, format);
  vfprintf(f, format, args);
  fputc('\n', f);
  va_end(args);
  fclose(f);
}

/* The error, if there is one; whether there is none. */
static bool ok(const char* what, TRITONSERVER_Error* e) {
  static const char* const codes[] = {
      "UNKNOWN", "INTERNAL", "NOT_FOUND", "INVALID_ARG", "UNAVAILABLE", "UNSUPPORTED", "ALREADY_EXISTS", "CANCELLED"};
  if (!e) return true;
  tell("%s: %s %s", what, codes[TRITONSERVER_ErrorCode(e)], TRITONSERVER_ErrorMessage(e));
  TRITONSERVER_ErrorDelete(e);
  return false;
}

#define SHOW(what, call, format, ...) \
  do {                                \
    if (ok(what, call)) tell(what ": " format, __VA_ARGS__); \
  } while (0)
#define DONE(what, call) SHOW(what, call, "%s", "ok")

static const char* safe(const char* s) { return s ? s : "(null)"; }

/* A message, which is the caller's to delete where it says so. */
static void document(const char* what, TRITONSERVER_Error* e, TRITONSERVER_Message** at, bool own) {
  const char* base;
  size_t size;
  if (!ok(what, e)) return;
  TRITONSERVER_Message* m = *at;
  if (ok(what, TRITONSERVER_MessageSerializeToJson(m, &base, &size))) tell("%s: %.*s", what, (int)size, base);
  if (own) DONE("its message deleted", TRITONSERVER_MessageDelete(m));
}

TRITONSERVER_Error* TRITONBACKEND_Initialize(TRITONBACKEND_Backend* backend) {
  uint32_t major = 0, minor = 0;
  const char *name = NULL, *location = NULL;
  TRITONBACKEND_ExecutionPolicy policy = 9;
  TRITONBACKEND_ArtifactType type = 9;
  TRITONBACKEND_MemoryManager* manager;
  TRITONSERVER_Message* config = NULL;
  void *state = &major, *memory = NULL;
  SHOW("ApiVersion", TRITONBACKEND_ApiVersion(&major, &minor), "%u.%u", major, minor);
  SHOW("BackendName", TRITONBACKEND_BackendName(backend, &name), "%s", name);
  SHOW("BackendState", TRITONBACKEND_BackendState(backend, &state), "%s", state ? "set" : "null");
  DONE("BackendSetState", TRITONBACKEND_BackendSetState(backend, &ok));
  SHOW("BackendState", TRITONBACKEND_BackendState(backend, &state), "%s", state == (void*)&ok ? "kept" : "lost");
  SHOW("BackendExecutionPolicy", TRITONBACKEND_BackendExecutionPolicy(backend, &policy), "%d", policy);
  DONE("BackendSetExecutionPolicy", TRITONBACKEND_BackendSetExecutionPolicy(backend, TRITONBACKEND_EXECUTION_DEVICE_BLOCKING));
  SHOW("BackendExecutionPolicy", TRITONBACKEND_BackendExecutionPolicy(backend, &policy), "%d", policy);
  DONE("BackendSetExecutionPolicy", TRITONBACKEND_BackendSetExecutionPolicy(backend, TRITONBACKEND_EXECUTION_BLOCKING));
  SHOW("BackendArtifacts", TRITONBACKEND_BackendArtifacts(backend, &type, &location), "%d %s", type, location);
  document("BackendConfig", TRITONBACKEND_BackendConfig(backend, &config), &config, false);
  if (!ok("BackendMemoryManager", TRITONBACKEND_BackendMemoryManager(backend, &manager))) return NULL;
  for (uint64_t size = 0; size <= 64; size += 64) {
    TRITONSERVER_Error* e = TRITONBACKEND_MemoryManagerAllocate(manager, &memory, TRITONSERVER_MEMORY_CPU, 0, size);
    if (ok("MemoryManagerAllocate", e))
      DONE("MemoryManagerFree", TRITONBACKEND_MemoryManagerFree(manager, memory, TRITONSERVER_MEMORY_CPU, 0));
  }
  return NULL;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model) {
  const char *name = NULL, *location = NULL;
  uint64_t version = 0;
  bool may = false;
  TRITONBACKEND_ArtifactType type = 9;
  TRITONSERVER_Message* config = NULL;
  TRITONBACKEND_Backend* backend;
  TRITONSERVER_Server* server = NULL;
  void* state = &version;
  SHOW("ModelName", TRITONBACKEND_ModelName(model, &name), "%s", name);
  SHOW("ModelVersion", TRITONBACKEND_ModelVersion(model, &version), "%d", (int)version);
  SHOW("ModelRepository", TRITONBACKEND_ModelRepository(model, &type, &location), "%d %s", type, location);
  SHOW("ModelAutoCompleteConfig", TRITONBACKEND_ModelAutoCompleteConfig(model, &may), "%d", may);
  SHOW("ModelState", TRITONBACKEND_ModelState(model, &state), "%s", state ? "set" : "null");
  DONE("ModelSetState", TRITONBACKEND_ModelSetState(model, &tell));
  SHOW("ModelServer", TRITONBACKEND_ModelServer(model, &server), "%s", server ? "there" : "null");
  if (ok("ModelBackend", TRITONBACKEND_ModelBackend(model, &backend))) {
    SHOW("BackendState", TRITONBACKEND_BackendState(backend, &state), "%s", state == (void*)&ok ? "kept" : "lost");
    DONE("BackendSetExecutionPolicy late", TRITONBACKEND_BackendSetExecutionPolicy(backend, TRITONBACKEND_EXECUTION_BLOCKING));
  }
  document("ModelConfig", TRITONBACKEND_ModelConfig(model, 1, &config), &config, true);
  for (uint32_t v = 0; v <= 2; v += 2)
    document("ModelConfig of another version", TRITONBACKEND_ModelConfig(model, v, &config), &config, true);
  if (ok("ModelConfig", TRITONBACKEND_ModelConfig(model, 1, &config))) {
    DONE("ModelSetConfig of version 2", TRITONBACKEND_ModelSetConfig(model, 2, config));
    DONE("its message deleted", TRITONSERVER_MessageDelete(config));
  }
  TRITONSERVER_BufferAttributes* usage;
  if (ok("BufferAttributesNew", TRITONSERVER_BufferAttributesNew(&usage))) {
    TRITONSERVER_ErrorDelete(TRITONSERVER_BufferAttributesSetByteSize(usage, 1000));
    DONE("ModelReportMemoryUsage", TRITONBACKEND_ModelReportMemoryUsage(model, &usage, 1));
    DONE("ModelReportMemoryUsage of none", TRITONBACKEND_ModelReportMemoryUsage(model, NULL, 0));
    TRITONSERVER_ErrorDelete(TRITONSERVER_BufferAttributesDelete(usage));
  }
  return NULL;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* instance) {
  const char *name = NULL, *kind_name = NULL;
  TRITONSERVER_InstanceGroupKind kind = 9;
  int32_t device = 9;
  int64_t id = 9;
  bool passive = true;
  uint32_t count = 9;
  TRITONSERVER_Message* policy = NULL;
  TRITONBACKEND_Model* model;
  void* state = &count;
  SHOW("ModelInstanceName", TRITONBACKEND_ModelInstanceName(instance, &name), "%s", name);
  SHOW("ModelInstanceKind", TRITONBACKEND_ModelInstanceKind(instance, &kind), "%d", kind);
  SHOW("ModelInstanceDeviceId", TRITONBACKEND_ModelInstanceDeviceId(instance, &device), "%d", device);
  document("ModelInstanceHostPolicy", TRITONBACKEND_ModelInstanceHostPolicy(instance, &policy), &policy, false);
  SHOW("ModelInstanceIsPassive", TRITONBACKEND_ModelInstanceIsPassive(instance, &passive), "%d", passive);
  SHOW("ModelInstanceProfileCount", TRITONBACKEND_ModelInstanceProfileCount(instance, &count), "%u", count);
  for (uint32_t i = 0; i <= count; i++)
    SHOW("ModelInstanceProfileName", TRITONBACKEND_ModelInstanceProfileName(instance, i, &name), "%s", name);
  SHOW("ModelInstanceSecondaryDeviceCount", TRITONBACKEND_ModelInstanceSecondaryDeviceCount(instance, &count), "%u", count);
  for (uint32_t i = 0; i <= count; i++)
    SHOW("ModelInstanceSecondaryDeviceProperties", TRITONBACKEND_ModelInstanceSecondaryDeviceProperties(instance, i, &kind_name, &id),
         "%s %d", kind_name, (int)id);
  SHOW("ModelInstanceState", TRITONBACKEND_ModelInstanceState(instance, &state), "%s", state ? "set" : "null");
  DONE("ModelInstanceSetState", TRITONBACKEND_ModelInstanceSetState(instance, &tell));
  if (ok("ModelInstanceModel", TRITONBACKEND_ModelInstanceModel(instance, &model)))
    SHOW("ModelState", TRITONBACKEND_ModelState(model, &state), "%s", state == (void*)&tell ? "kept" : "lost");
  return NULL;
}

static void about_request(TRITONBACKEND_Request* r) {
  const char *text = NULL, *key = NULL;
  uint64_t number = 9, size = 9;
  uint32_t n = 9;
  bool is = true;
  int64_t id = 9;
  const void* value = NULL;
  TRITONSERVER_ParameterType type;
  TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_GPU;
  TRITONSERVER_InferenceTrace* trace = NULL;
  TRITONBACKEND_Input* input;
  SHOW("RequestId", TRITONBACKEND_RequestId(r, &text), "'%s'", safe(text));
  SHOW("RequestCorrelationId", TRITONBACKEND_RequestCorrelationId(r, &number), "%d", (int)number);
  SHOW("RequestCorrelationIdString", TRITONBACKEND_RequestCorrelationIdString(r, &text), "'%s'", safe(text));
  SHOW("RequestFlags", TRITONBACKEND_RequestFlags(r, &n), "%u", n);
  SHOW("RequestTimeout", TRITONBACKEND_InferenceRequestTimeoutMicroseconds(r, &number), "%d", (int)number);
  SHOW("RequestIsCancelled", TRITONBACKEND_RequestIsCancelled(r, &is), "%d", is);
  SHOW("RequestTrace", TRITONBACKEND_RequestTrace(r, &trace), "%s", trace ? "there" : "null");
  SHOW("RequestParameterCount", TRITONBACKEND_RequestParameterCount(r, &n), "%u", n);
  for (uint32_t i = 0; i <= n; i++) {
    if (!ok("RequestParameter", TRITONBACKEND_RequestParameter(r, i, &key, &type, &value))) continue;
    if (type == TRITONSERVER_PARAMETER_STRING) tell("RequestParameter: %s '%s'", key, (const char*)value);
    if (type == TRITONSERVER_PARAMETER_INT) tell("RequestParameter: %s %d", key, (int)*(const int64_t*)value);
    if (type == TRITONSERVER_PARAMETER_BOOL) tell("RequestParameter: %s %s", key, *(const bool*)value ? "true" : "false");
    if (type == TRITONSERVER_PARAMETER_DOUBLE) tell("RequestParameter: %s %g", key, *(const double*)value);
  }
  SHOW("RequestInputCount", TRITONBACKEND_RequestInputCount(r, &n), "%u", n);
  for (uint32_t i = 0; i <= n; i++) SHOW("RequestInputName", TRITONBACKEND_RequestInputName(r, i, &text), "%s", text);
  DONE("RequestInputByIndex", TRITONBACKEND_RequestInputByIndex(r, 0, &input));
  DONE("RequestInputByIndex behind", TRITONBACKEND_RequestInputByIndex(r, 99, &input));
  DONE("RequestInput of no such name", TRITONBACKEND_RequestInput(r, "NONE", &input));
  SHOW("RequestOutputCount", TRITONBACKEND_RequestOutputCount(r, &n), "%u", n);
  for (uint32_t i = 0; i <= n; i++) SHOW("RequestOutputName", TRITONBACKEND_RequestOutputName(r, i, &text), "%s", text);
  size_t wanted = 64;
  SHOW("RequestOutputBufferProperties", TRITONBACKEND_RequestOutputBufferProperties(r, "OUT0", &wanted, &memory, &id),
       "%d %d", memory, (int)id);
  memory = TRITONSERVER_MEMORY_CPU;
  SHOW("RequestOutputBufferProperties without a size", TRITONBACKEND_RequestOutputBufferProperties(r, "OUT0", NULL, &memory, &id),
       "%d", memory);
  (void)size;
}

static void about_input(TRITONBACKEND_Request* r) {
  static const char* const policies[] = {NULL, "cpu", "other"};
  TRITONBACKEND_Input* input;
  TRITONSERVER_DataType datatype = 99;
  TRITONSERVER_MemoryType memory;
  TRITONSERVER_BufferAttributes* attributes = NULL;
  const char* name = NULL;
  const int64_t* shape = NULL;
  uint32_t dims = 9, count = 9;
  uint64_t size = 9;
  size_t told = 9;
  int64_t id;
  const void* buffer = NULL;
  if (!ok("RequestInput", TRITONBACKEND_RequestInput(r, "IN0", &input))) return;
  SHOW("InputProperties", TRITONBACKEND_InputProperties(input, &name, &datatype, &shape, &dims, &size, &count),
       "%s %d [%d,%d] %u %d %u", name, datatype, (int)shape[0], (int)shape[1], dims, (int)size, count);
  DONE("InputProperties of nothing", TRITONBACKEND_InputProperties(input, NULL, NULL, NULL, NULL, NULL, NULL));
  for (int i = 0; i < 3; i++) {
    SHOW("InputPropertiesForHostPolicy",
         TRITONBACKEND_InputPropertiesForHostPolicy(input, policies[i], &name, &datatype, &shape, &dims, &size, &count),
         "%s %d %u %d %u", name, datatype, dims, (int)size, count);
    for (uint32_t k = 0; k < 2; k++) {
      memory = TRITONSERVER_MEMORY_GPU, id = 7;
      SHOW("InputBufferForHostPolicy", TRITONBACKEND_InputBufferForHostPolicy(input, policies[i], k, &buffer, &size, &memory, &id),
           "%s %d %d %d", buffer ? "there" : "null", (int)size, memory, (int)id);
    }
  }
  for (uint32_t k = 0; k < 2; k++) {
    memory = TRITONSERVER_MEMORY_CPU, id = 0;
    SHOW("InputBuffer", TRITONBACKEND_InputBuffer(input, k, &buffer, &size, &memory, &id), "%s %d %d %d",
         buffer ? "there" : "null", (int)size, memory, (int)id);
    attributes = NULL;
    if (!ok("InputBufferAttributes", TRITONBACKEND_InputBufferAttributes(input, k, &buffer, &attributes)) || !attributes) continue;
    SHOW("InputBufferAttributes", TRITONSERVER_BufferAttributesByteSize(attributes, &told), "%s %d", buffer ? "there" : "null", (int)told);
  }
}

static void about_response(TRITONBACKEND_Request* r) {
  TRITONBACKEND_Response* p;
  TRITONBACKEND_Output *out, *again;
  TRITONSERVER_BufferAttributes* attributes = NULL;
  TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_GPU;
  TRITONSERVER_DataType datatype = 99;
  const char* name = NULL;
  const int64_t* shape = NULL;
  uint64_t dims = 9;
  int64_t id = 3, two[2] = {1, 2};
  size_t size = 9;
  void* buffer;
  if (!ok("ResponseNew", TRITONBACKEND_ResponseNew(&p, r))) return;
  if (!ok("ResponseOutput", TRITONBACKEND_ResponseOutput(p, &out, "OUT0", TRITONSERVER_TYPE_INT32, two, 2))) return;
  SHOW("OutputBuffer", TRITONBACKEND_OutputBuffer(out, &buffer, 8, &memory, &id), "%s %d %d", buffer ? "there" : "null", memory, (int)id);
  memset(buffer, 0, 8);
  if (ok("OutputBufferAttributes", TRITONBACKEND_OutputBufferAttributes(out, &attributes)))
    SHOW("OutputBufferAttributes", TRITONSERVER_BufferAttributesByteSize(attributes, &size), "%d", (int)size);
  DONE("OutputBuffer again", TRITONBACKEND_OutputBuffer(out, &buffer, 8, &memory, &id));
  DONE("ResponseOutput of the same name", TRITONBACKEND_ResponseOutput(p, &again, "OUT0", TRITONSERVER_TYPE_INT32, two, 2));
  DONE("ResponseOutput that the model does not have", TRITONBACKEND_ResponseOutput(p, &again, "NONE", TRITONSERVER_TYPE_INT32, two, 2));
  SHOW("InferenceResponseOutput", TRITONBACKEND_InferenceResponseOutput(p, 0, &name, &datatype, &shape, &dims), "%s %d %d",
       name, datatype, (int)dims);
  DONE("InferenceResponseOutput behind", TRITONBACKEND_InferenceResponseOutput(p, 9, &name, &datatype, &shape, &dims));
  SHOW("InferenceResponseOutputByName", TRITONBACKEND_InferenceResponseOutputByName(p, "OUT0", &datatype, &shape, &dims), "%d %d",
       datatype, (int)dims);
  DONE("InferenceResponseOutputByName of none", TRITONBACKEND_InferenceResponseOutputByName(p, "ABSENT", &datatype, &shape, &dims));
  DONE("ResponseSetStringParameter", TRITONBACKEND_ResponseSetStringParameter(p, "s", "v"));
  DONE("ResponseSetStringParameter again", TRITONBACKEND_ResponseSetStringParameter(p, "s", "w"));
  DONE("ResponseSetIntParameter", TRITONBACKEND_ResponseSetIntParameter(p, "i", 5));
  DONE("ResponseSetBoolParameter", TRITONBACKEND_ResponseSetBoolParameter(p, "b", true));
  DONE("ResponseSetDoubleParameter", TRITONBACKEND_ResponseSetDoubleParameter(p, "d", 0.5));
  DONE("ResponseDelete", TRITONBACKEND_ResponseDelete(p));
}

static void about_the_rest(TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request* r) {
  TRITONBACKEND_State* state;
  TRITONBACKEND_ResponseFactory* factory;
  TRITONBACKEND_ModelInstanceResponseStatistics* stats;
  int64_t two[2] = {1, 2};
  bool is = true;
  DONE("StateNew of a model without states", TRITONBACKEND_StateNew(&state, r, "STATE", TRITONSERVER_TYPE_INT32, two, 2));
  DONE("RequestRelease to be run again", TRITONBACKEND_RequestRelease(r, TRITONSERVER_REQUEST_RELEASE_RESCHEDULE));
  DONE("ReportStatistics", TRITONBACKEND_ModelInstanceReportStatistics(instance, r, true, 1000, 2000, 3000, 4000));
  DONE("ReportStatistics of a failure", TRITONBACKEND_ModelInstanceReportStatistics(instance, r, false, 0, 0, 0, 0));
  DONE("ReportBatchStatistics", TRITONBACKEND_ModelInstanceReportBatchStatistics(instance, 1, 1000, 2000, 3000, 4000));
  if (!ok("ResponseFactoryNew", TRITONBACKEND_ResponseFactoryNew(&factory, r))) return;
  SHOW("ResponseFactoryIsCancelled", TRITONBACKEND_ResponseFactoryIsCancelled(factory, &is), "%d", is);
  if (ok("ResponseStatisticsNew", TRITONBACKEND_ModelInstanceResponseStatisticsNew(&stats))) {
    DONE("SetModelInstance", TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance(stats, instance));
    DONE("SetResponseFactory", TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory(stats, factory));
    DONE("SetResponseStart", TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart(stats, 1000));
    DONE("SetComputeOutputStart", TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart(stats, 1500));
    DONE("SetResponseEnd", TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd(stats, 2000));
    DONE("SetError", TRITONBACKEND_ModelInstanceResponseStatisticsSetError(stats, NULL));
    DONE("ReportResponseStatistics", TRITONBACKEND_ModelInstanceReportResponseStatistics(stats));
    DONE("ResponseStatisticsDelete", TRITONBACKEND_ModelInstanceResponseStatisticsDelete(stats));
  }
  DONE("ResponseFactoryDelete", TRITONBACKEND_ResponseFactoryDelete(factory));
}

static TRITONSERVER_Error* answer(TRITONBACKEND_Request* r, const char* what) {
  TRITONBACKEND_Response* p;
  TRITONBACKEND_Input* input;
  TRITONBACKEND_Output* out;
  TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
  int64_t id = 0, two[2] = {1, 2};
  int32_t* to;
  TRY(TRITONBACKEND_ResponseNew(&p, r));
  TRITONSERVER_Error* e = NULL;
  if (!strcmp(what, "nothing")) {
  } else if (!strcmp(what, "other output")) {
    e = TRITONBACKEND_ResponseOutput(p, &out, "OTHER", TRITONSERVER_TYPE_INT32, two, 2);
    if (!e) e = TRITONBACKEND_OutputBuffer(out, (void**)&to, 8, &memory, &id);
    if (!e) memset(to, 0, 8);
  } else if (!strcmp(what, "other datatype")) {
    e = TRITONBACKEND_ResponseOutput(p, &out, "OUT0", TRITONSERVER_TYPE_FP32, two, 2);
    if (!e) e = TRITONBACKEND_OutputBuffer(out, (void**)&to, 8, &memory, &id);
    if (!e) memset(to, 0, 8);
  } else if (!strcmp(what, "parameters")) {
    e = TRITONBACKEND_ResponseSetStringParameter(p, "s", "v");
    if (!e) e = TRITONBACKEND_ResponseSetIntParameter(p, "i", -5);
    if (!e) e = TRITONBACKEND_ResponseSetBoolParameter(p, "b", true);
    if (!e) e = TRITONBACKEND_ResponseSetDoubleParameter(p, "d", 0.5);
    if (!e) e = TRITONBACKEND_RequestInput(r, "IN0", &input);
    if (!e) e = copy_to(p, input, "OUT0");
  } else if (!strncmp(what, "code ", 5)) {
    e = TRITONSERVER_ErrorNew(atoi(what + 5), "as it was told");
  } else {
    e = TRITONBACKEND_RequestInput(r, "IN0", &input);
    if (!e) e = copy_to(p, input, "OUT0");
  }
  TRITONSERVER_Error* sent = TRITONBACKEND_ResponseSend(p, TRITONSERVER_RESPONSE_COMPLETE_FINAL, e);
  DONE("ResponseSend", sent);
  TRITONSERVER_ErrorDelete(e);
  return NULL;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    const char* key;
    const void* value;
    char what[64] = "";
    uint32_t n = 0;
    TRITONSERVER_ParameterType type;
    TRITONSERVER_ErrorDelete(TRITONBACKEND_RequestParameterCount(requests[i], &n));
    for (uint32_t k = 0; k < n; k++) {
      if (ok("RequestParameter", TRITONBACKEND_RequestParameter(requests[i], k, &key, &type, &value)) && !strcmp(key, "do"))
        snprintf(what, sizeof what, "%s", (const char*)value);
    }
    if (!strcmp(what, "request")) about_request(requests[i]);
    if (!strcmp(what, "input")) about_input(requests[i]);
    if (!strcmp(what, "response")) about_response(requests[i]);
    if (!strcmp(what, "rest")) about_the_rest(instance, requests[i]);
    if (!strcmp(what, "refuse")) return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNSUPPORTED, "not this one");
    ok("answer", answer(requests[i], what));
    DONE("RequestRelease", TRITONBACKEND_RequestRelease(requests[i], TRITONSERVER_REQUEST_RELEASE_ALL));
  }
  return NULL;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance* instance) {
  void* state = NULL;
  SHOW("at the end: ModelInstanceState", TRITONBACKEND_ModelInstanceState(instance, &state), "%s", state == (void*)&tell ? "kept" : "lost");
  return NULL;
}

TRITONSERVER_Error* TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model* model) {
  void* state = NULL;
  SHOW("at the end: ModelState", TRITONBACKEND_ModelState(model, &state), "%s", state == (void*)&tell ? "kept" : "lost");
  return NULL;
}
