/* Asks the server for what the parameter "do" of a request says, through TRITONBACKEND_ModelServer. */
#include <pthread.h>

#include "common.h"

/* What calls have come back, and with what. */
static struct {
  pthread_mutex_t mu;
  pthread_cond_t some;
  int sent, released, answered, errors, wrong;
  char error[256];
  int32_t sum;
  int64_t version; /* of the model that answered last */
  bool hang;
} all = {.mu = PTHREAD_MUTEX_INITIALIZER, .some = PTHREAD_COND_INITIALIZER};

static TRITONSERVER_Error* allocate(
    TRITONSERVER_ResponseAllocator* a, const char* name, size_t size, TRITONSERVER_MemoryType type, int64_t id, void* userp,
    void** buffer, void** buffer_userp, TRITONSERVER_MemoryType* actual, int64_t* actual_id) {
  (void)a, (void)name, (void)userp;
  *buffer = malloc(size ? size : 1);
  *buffer_userp = NULL;
  *actual = type, *actual_id = id;
  return NULL;
}

static TRITONSERVER_Error* give_back(
    TRITONSERVER_ResponseAllocator* a, void* buffer, void* buffer_userp, size_t size, TRITONSERVER_MemoryType type, int64_t id) {
  (void)a, (void)buffer_userp, (void)size, (void)type, (void)id;
  free(buffer);
  return NULL;
}

static void released(TRITONSERVER_InferenceRequest* request, const uint32_t flags, void* userp) {
  TRITONSERVER_Error* e = userp ? NULL : TRITONSERVER_InferenceRequestDelete(request); /* that of call_kept stays */
  pthread_mutex_lock(&all.mu);
  if (e || flags != TRITONSERVER_REQUEST_RELEASE_ALL) all.wrong++;
  all.released++;
  pthread_cond_broadcast(&all.some);
  pthread_mutex_unlock(&all.mu);
  TRITONSERVER_ErrorDelete(e);
}

static void answered(TRITONSERVER_InferenceResponse* response, const uint32_t flags, void* userp) {
  (void)userp;
  if (all.hang) pause();
  pthread_mutex_lock(&all.mu);
  if (response) {
    TRITONSERVER_Error* e = TRITONSERVER_InferenceResponseError(response); /* the response's */
    uint32_t n = 0;
    const char* model;
    TRITONSERVER_ErrorDelete(TRITONSERVER_InferenceResponseModel(response, &model, &all.version));
    if (e) {
      all.errors++;
      snprintf(all.error, sizeof all.error, "%s", TRITONSERVER_ErrorMessage(e));
    } else if (!TRITONSERVER_InferenceResponseOutputCount(response, &n) && n == 1) {
      const char* name;
      TRITONSERVER_DataType datatype;
      const int64_t* shape;
      uint64_t dims;
      const void* base;
      size_t size;
      TRITONSERVER_MemoryType type;
      int64_t id;
      void* own;
      e = TRITONSERVER_InferenceResponseOutput(response, 0, &name, &datatype, &shape, &dims, &base, &size, &type, &id, &own);
      if (e || strcmp(name, "OUT0") != 0 || datatype != TRITONSERVER_TYPE_INT32) all.wrong++;
      for (size_t i = 0; !e && i < size / 4; i++) all.sum += ((const int32_t*)base)[i];
    }
    TRITONSERVER_ErrorDelete(TRITONSERVER_InferenceResponseDelete(response));
    e = TRITONSERVER_InferenceResponseDelete(response); /* once too often */
    if (!e) all.wrong++;
    TRITONSERVER_ErrorDelete(e);
  }
  if (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) all.answered++;
  pthread_cond_broadcast(&all.some);
  pthread_mutex_unlock(&all.mu);
}

static TRITONSERVER_ResponseAllocator* allocator;

/* Notes something on the request's trace, and makes one below it for a call. */
static TRITONSERVER_Error* follow(TRITONBACKEND_Request* request, TRITONSERVER_InferenceTrace** child) {
  TRITONSERVER_InferenceTrace* trace;
  const char *model, *context, *id;
  int64_t version;
  uint64_t number, above;
  TRY(TRITONBACKEND_RequestTrace(request, &trace));
  if (!trace) return ERR("the request is not traced");
  TRY(TRITONSERVER_InferenceTraceModelName(trace, &model));
  TRY(TRITONSERVER_InferenceTraceModelVersion(trace, &version));
  TRY(TRITONSERVER_InferenceTraceRequestId(trace, &id));
  TRY(TRITONSERVER_InferenceTraceContext(trace, &context));
  SAY("trace of %s version %d id '%s' context '%.12s'", model, (int)version, id, context);
  TRY(TRITONSERVER_InferenceTraceReportActivity(trace, now_ns(), "a \"quoted\" step"));
  TRY(TRITONSERVER_InferenceTraceSpawnChildTrace(trace, child));
  TRY(TRITONSERVER_InferenceTraceId(trace, &number));
  TRY(TRITONSERVER_InferenceTraceParentId(*child, &above));
  if (number != above) return ERR("the child's parent is another one");
  TRITONSERVER_Error* e = TRITONSERVER_InferenceTraceDelete(trace); /* it is the server's */
  SAY("trace: %s", e ? TRITONSERVER_ErrorMessage(e) : "no error");
  TRITONSERVER_ErrorDelete(e);
  return NULL;
}

/* Sends the request's input to another model. */
static TRITONSERVER_Error* call(
    TRITONSERVER_Server* server, const char* to, TRITONBACKEND_Request* request, bool again, bool traced) {
  TRITONSERVER_InferenceTrace* trace = NULL;
  TRITONSERVER_InferenceRequest* r;
  TRITONBACKEND_Input* input;
  const int64_t* shape;
  uint32_t dims;
  uint64_t size;
  const void* data;
  TRITONSERVER_MemoryType type;
  int64_t id;
  TRY(TRITONSERVER_InferenceRequestNew(&r, server, to, -1));
  TRY(TRITONSERVER_InferenceRequestSetId(r, "called"));
  TRY(TRITONBACKEND_RequestInput(request, "IN0", &input));
  TRY(TRITONBACKEND_InputProperties(input, NULL, NULL, &shape, &dims, &size, NULL));
  TRY(TRITONBACKEND_InputBuffer(input, 0, &data, &size, &type, &id));
  TRY(TRITONSERVER_InferenceRequestAddInput(r, "IN0", TRITONSERVER_TYPE_INT32, shape, dims));
  TRY(TRITONSERVER_InferenceRequestAppendInputData(r, "IN0", data, size, type, id));
  TRY(TRITONSERVER_InferenceRequestSetReleaseCallback(r, released, NULL));
  TRY(TRITONSERVER_InferenceRequestSetResponseCallback(r, allocator, NULL, answered, NULL));
  pthread_mutex_lock(&all.mu);
  all.sent++;
  pthread_mutex_unlock(&all.mu);
  TRITONSERVER_Error* e = traced ? follow(request, &trace) : NULL;
  if (!e) e = TRITONSERVER_ServerInferAsync(server, r, trace);
  if (e) {
    pthread_mutex_lock(&all.mu);
    all.sent--;
    pthread_mutex_unlock(&all.mu);
    TRITONSERVER_ErrorDelete(TRITONSERVER_InferenceRequestDelete(r));
  } else if (again) { /* it is the server's by now */
    TRITONSERVER_Error* second = TRITONSERVER_ServerInferAsync(server, r, NULL);
    SAY("in flight: %s", second ? TRITONSERVER_ErrorMessage(second) : "no error");
    TRITONSERVER_ErrorDelete(second);
  }
  return e;
}

/* Sends a request that was made once, each time again. */
static TRITONSERVER_Error* call_kept(TRITONSERVER_Server* server, const char* to) {
  static TRITONSERVER_InferenceRequest* kept;
  static const int32_t data[] = {1, 2, 3};
  static const int64_t shape[] = {1, 3};
  if (!kept) {
    TRY(TRITONSERVER_InferenceRequestNew(&kept, server, to, -1));
    TRY(TRITONSERVER_InferenceRequestAddInput(kept, "IN0", TRITONSERVER_TYPE_INT32, shape, 2));
    TRY(TRITONSERVER_InferenceRequestAppendInputData(kept, "IN0", data, sizeof data, TRITONSERVER_MEMORY_CPU, 0));
    TRY(TRITONSERVER_InferenceRequestSetReleaseCallback(kept, released, &kept));
    TRY(TRITONSERVER_InferenceRequestSetResponseCallback(kept, allocator, NULL, answered, NULL));
  }
  pthread_mutex_lock(&all.mu);
  all.sent++;
  pthread_mutex_unlock(&all.mu);
  TRITONSERVER_Error* e = TRITONSERVER_ServerInferAsync(server, kept, NULL);
  if (e) {
    pthread_mutex_lock(&all.mu);
    all.sent--;
    pthread_mutex_unlock(&all.mu);
  }
  return e;
}

static void wait_for_all(void) {
  pthread_mutex_lock(&all.mu);
  while (all.answered < all.sent || all.released < all.sent) pthread_cond_wait(&all.some, &all.mu);
  pthread_mutex_unlock(&all.mu);
}

static TRITONSERVER_Error* tell(TRITONBACKEND_Response* response, const char* what, TRITONSERVER_Message* message) {
  const char* base;
  size_t size;
  char text[512];
  TRY(TRITONSERVER_MessageSerializeToJson(message, &base, &size));
  snprintf(text, sizeof text, "%.*s", (int)size, base);
  TRY(TRITONBACKEND_ResponseSetStringParameter(response, what, text));
  return TRITONSERVER_MessageDelete(message);
}

static TRITONSERVER_Error* describe(TRITONSERVER_Server* server, TRITONBACKEND_Response* response) {
  TRITONSERVER_Message* m;
  bool yes;
  uint32_t flags;
  void* none;
  TRY(TRITONSERVER_ServerMetadata(server, &m));
  TRY(tell(response, "server", m));
  TRY(TRITONSERVER_ServerModelMetadata(server, "ident", -1, &m));
  TRY(tell(response, "metadata", m));
  TRY(TRITONSERVER_ServerModelConfig(server, "ident", -1, 1, &m));
  TRY(tell(response, "config", m));
  TRY(TRITONSERVER_ServerModelStatistics(server, "ident", -1, &m));
  TRY(tell(response, "statistics", m));
  TRY(TRITONSERVER_ServerModelIndex(server, TRITONSERVER_INDEX_FLAG_READY, &m));
  TRY(tell(response, "index", m));
  TRY(TRITONSERVER_ServerIsLive(server, &yes));
  TRY(TRITONBACKEND_ResponseSetBoolParameter(response, "live", yes));
  TRY(TRITONSERVER_ServerIsReady(server, &yes));
  TRY(TRITONBACKEND_ResponseSetBoolParameter(response, "ready", yes));
  TRY(TRITONSERVER_ServerModelIsReady(server, "none", -1, &yes));
  TRY(TRITONBACKEND_ResponseSetBoolParameter(response, "none", yes));
  TRY(TRITONSERVER_ServerModelBatchProperties(server, "ident", -1, &flags, &none));
  TRY(TRITONBACKEND_ResponseSetIntParameter(response, "batches", flags));
  return NULL;
}

static TRITONSERVER_Error* measure(void) {
  TRITONSERVER_MetricFamily* family;
  TRITONSERVER_MetricArgs* args;
  TRITONSERVER_Metric* metric;
  const double buckets[] = {1, 10};
  TRITONSERVER_Parameter* label = TRITONSERVER_ParameterNew("which", TRITONSERVER_PARAMETER_STRING, "c");
  const TRITONSERVER_Parameter* labels[] = {label};
  TRY(TRITONSERVER_MetricFamilyNew(&family, TRITONSERVER_METRIC_KIND_HISTOGRAM, "asked", "How much was asked"));
  TRY(TRITONSERVER_MetricArgsNew(&args));
  TRY(TRITONSERVER_MetricArgsSetHistogram(args, buckets, 2));
  TRY(TRITONSERVER_MetricNewWithArgs(&metric, family, labels, 1, args));
  TRY(TRITONSERVER_MetricArgsDelete(args));
  TRITONSERVER_ParameterDelete(label);
  TRY(TRITONSERVER_MetricObserve(metric, 5));
  TRITONSERVER_Error* e = TRITONSERVER_MetricIncrement(metric, 1);
  SAY("histogram: %s", e ? TRITONSERVER_ErrorMessage(e) : "no error");
  TRITONSERVER_ErrorDelete(e);
  e = TRITONSERVER_MetricFamilyDelete(family); /* while it has a metric */
  SAY("family: %s", e ? TRITONSERVER_ErrorMessage(e) : "no error");
  TRITONSERVER_ErrorDelete(e);
  return NULL; /* the family stays until the process ends */
}

static TRITONSERVER_Error* run(TRITONSERVER_Server* server, TRITONBACKEND_Request* request, TRITONBACKEND_Response* response) {
  char what[32], to[64];
  TRY(parameter(request, "do", what, sizeof what));
  TRY(parameter(request, "to", to, sizeof to));
  if (!allocator) TRY(TRITONSERVER_ResponseAllocatorNew(&allocator, allocate, give_back, NULL));
  all.sent = all.released = all.answered = all.errors = all.wrong = all.sum = 0;
  all.error[0] = 0;
  if (strcmp(what, "describe") == 0) return describe(server, response);
  if (strcmp(what, "measure") == 0) return measure();
  if (strcmp(what, "load") == 0) return TRITONSERVER_ServerLoadModel(server, to);
  if (strcmp(what, "unload") == 0) return TRITONSERVER_ServerUnloadModel(server, to);
  if (strcmp(what, "stop") == 0) return TRITONSERVER_ServerStop(server);
  if (strcmp(what, "delete") == 0) return TRITONSERVER_ServerDelete(server);
  if (strcmp(what, "forged") == 0) return call((TRITONSERVER_Server*)((uintptr_t)server + 1), to, request, false, false);
  all.hang = strcmp(what, "hang") == 0;
  bool keep = strcmp(what, "keep") == 0;
  int times = strcmp(what, "flood") == 0 ? 3000 : keep ? 0 : 1;
  if (keep) TRY(call_kept(server, to));
  for (int i = 0; i < times; i++) TRY(call(server, to, request, strcmp(what, "again") == 0, strcmp(what, "trace") == 0));
  if (strcmp(what, "die") == 0) abort();
  wait_for_all();
  if (all.wrong) return ERR("something was wrong with an answer");
  if (all.errors && times < 2) return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, all.error);
  if (keep) TRY(TRITONBACKEND_ResponseSetIntParameter(response, "version", all.version));
  TRY(TRITONBACKEND_ResponseSetIntParameter(response, "answers", all.answered));
  TRY(TRITONBACKEND_ResponseSetIntParameter(response, "errors", all.errors));
  TRY(TRITONBACKEND_ResponseSetStringParameter(response, "error", all.error));
  return TRITONBACKEND_ResponseSetIntParameter(response, "sum", all.sum);
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  TRITONBACKEND_Model* model;
  TRITONSERVER_Server* server;
  TRY(TRITONBACKEND_ModelInstanceModel(instance, &model));
  TRY(TRITONBACKEND_ModelServer(model, &server));
  for (uint32_t i = 0; i < count; i++) {
    TRITONBACKEND_Response* response;
    TRITONBACKEND_Input* input;
    TRY(TRITONBACKEND_ResponseNew(&response, requests[i]));
    TRITONSERVER_Error* e = run(server, requests[i], response);
    if (!e) e = TRITONBACKEND_RequestInput(requests[i], "IN0", &input);
    if (!e) e = copy_to(response, input, "OUT0");
    TRITONSERVER_ErrorDelete(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, e));
    TRITONSERVER_ErrorDelete(e);
    TRITONSERVER_ErrorDelete(TRITONBACKEND_RequestRelease(requests[i], TRITONSERVER_REQUEST_RELEASE_ALL));
  }
  return NULL;
}
