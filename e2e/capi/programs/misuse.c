/* What no program should do: it is answered with an error, never with a crash.
 * usage: misuse REPOSITORY */
#include "check.h"

static void objects(void) {
  const char* name = "n";
  int64_t one = 1;
  WANT(!TRITONSERVER_ParameterNew(name, 77, &one) && !TRITONSERVER_ParameterNew(name, TRITONSERVER_PARAMETER_INT, 0));
  WANT(!TRITONSERVER_ParameterNew(0, TRITONSERVER_PARAMETER_INT, &one));
  TRITONSERVER_Parameter* p = TRITONSERVER_ParameterNew(name, TRITONSERVER_PARAMETER_INT, &one);
  TRITONSERVER_ParameterDelete(p);
  TRITONSERVER_ParameterDelete(p);
  TRITONSERVER_ParameterDelete(0);

  Error e = TRITONSERVER_ErrorNew(99, 0);
  WANT(TRITONSERVER_ErrorCode(e) == TRITONSERVER_ERROR_UNKNOWN && !*TRITONSERVER_ErrorMessage(e));
  TRITONSERVER_ErrorDelete(e);
  TRITONSERVER_ErrorDelete(e);
  TRITONSERVER_ErrorDelete(0);
  WANT(strstr(TRITONSERVER_ErrorMessage(e), "deleted") && strstr(TRITONSERVER_ErrorCodeString(e), "Unknown"));

  TRITONSERVER_Message* m;
  const char* base;
  size_t size;
  OK(TRITONSERVER_MessageNewFromSerializedJson(&m, "{}", 2));
  REFUSED(TRITONSERVER_MessageSerializeToJson(m, 0, &size), TRITONSERVER_ERROR_INVALID_ARG, "null");
  REFUSED(TRITONSERVER_MessageDelete((void*)p), TRITONSERVER_ERROR_INVALID_ARG, "message"); /* another kind of object */
  OK(TRITONSERVER_MessageDelete(m));
  REFUSED(TRITONSERVER_MessageDelete(m), TRITONSERVER_ERROR_INVALID_ARG, "deleted");
  REFUSED(TRITONSERVER_MessageSerializeToJson(m, &base, &size), TRITONSERVER_ERROR_INVALID_ARG, "deleted");
  REFUSED(TRITONSERVER_MessageDelete((void*)&m), TRITONSERVER_ERROR_INVALID_ARG, "never was one");
  REFUSED(TRITONSERVER_MessageNewFromSerializedJson(0, "{}", 2), TRITONSERVER_ERROR_INVALID_ARG, "null");

  TRITONSERVER_BufferAttributes* b;
  OK(TRITONSERVER_BufferAttributesNew(&b));
  REFUSED(TRITONSERVER_BufferAttributesSetMemoryType(b, 9), TRITONSERVER_ERROR_INVALID_ARG, "memory type");
  OK(TRITONSERVER_BufferAttributesByteSize(b, 0));
  OK(TRITONSERVER_BufferAttributesDelete(b));
  REFUSED(TRITONSERVER_BufferAttributesDelete(b), TRITONSERVER_ERROR_INVALID_ARG, "deleted");
  REFUSED(TRITONSERVER_ResponseAllocatorNew(0, on_alloc, on_free, 0), TRITONSERVER_ERROR_INVALID_ARG, "null");
  REFUSED(TRITONSERVER_LogMessage(9, "f", 1, "m"), TRITONSERVER_ERROR_INVALID_ARG, "unknown logging level '9'");
  WANT(!TRITONSERVER_LogIsEnabled(9));
}

static void option_sets(void) {
  TRITONSERVER_ServerOptions* o;
  TRITONSERVER_Server* s;
  OK(TRITONSERVER_ServerOptionsNew(&o));
  REFUSED(TRITONSERVER_ServerOptionsSetModelControlMode(o, 9), TRITONSERVER_ERROR_INVALID_ARG, "unknown control mode '9'");
  REFUSED(TRITONSERVER_ServerOptionsSetRateLimiterMode(o, 9), TRITONSERVER_ERROR_INVALID_ARG, "unknown rate limit mode '9'");
  REFUSED(TRITONSERVER_ServerOptionsSetLogFormat(o, 9), TRITONSERVER_ERROR_INVALID_ARG, "log format");
  REFUSED(TRITONSERVER_ServerOptionsSetModelRepositoryPath(o, 0), TRITONSERVER_ERROR_INVALID_ARG, "null");
  REFUSED(TRITONSERVER_ServerOptionsSetHostPolicy(o, "p", "colour", "red"), TRITONSERVER_ERROR_UNSUPPORTED, "'colour'");
  REFUSED(TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit(o, 2, -1, .5), TRITONSERVER_ERROR_INVALID_ARG, "device ID >= 0, got -1");
  REFUSED(TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit(o, 2, 0, 2), TRITONSERVER_ERROR_INVALID_ARG, "in range [0.0, 1.0], got 2");
  REFUSED(TRITONSERVER_ServerNew(&s, o), TRITONSERVER_ERROR_INVALID_ARG, "--model-repository must be specified");
  REFUSED(TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit(o, 1, 0, .5), TRITONSERVER_ERROR_INVALID_ARG, "not supported, got: CPU");
  OK(TRITONSERVER_ServerOptionsSetModelRepositoryPath(o, "/nowhere"));
  OK(TRITONSERVER_ServerOptionsSetModelRepositoryPath(o, "/nowhere"));
  OK(TRITONSERVER_ServerOptionsSetLogError(o, 0));
  REFUSED(TRITONSERVER_ServerNew(&s, o), TRITONSERVER_ERROR_INTERNAL, "/nowhere");
  REFUSED(TRITONSERVER_ServerNew(0, o), TRITONSERVER_ERROR_INVALID_ARG, "null");
  OK(TRITONSERVER_ServerOptionsDelete(o));
  REFUSED(TRITONSERVER_ServerNew(&s, o), TRITONSERVER_ERROR_INVALID_ARG, "deleted");
  REFUSED(TRITONSERVER_ServerOptionsDelete(o), TRITONSERVER_ERROR_INVALID_ARG, "deleted");
}

static void servers(const char* repository) {
  TRITONSERVER_Server* s = serve(options(repository), "repeat");
  TRITONSERVER_Message* m;
  TRITONSERVER_InferenceRequest* r;
  bool live, ready;
  REFUSED(TRITONSERVER_ServerIsLive(s, 0), TRITONSERVER_ERROR_INVALID_ARG, "null");
  REFUSED(TRITONSERVER_ServerModelConfig(s, "repeat", -1, 2, &m), TRITONSERVER_ERROR_INVALID_ARG, "version");
  REFUSED(TRITONSERVER_ServerModelConfig(s, 0, -1, 1, &m), TRITONSERVER_ERROR_INVALID_ARG, "null");
  REFUSED(TRITONSERVER_ServerModelMetadata(s, "nobody", -1, &m), TRITONSERVER_ERROR_NOT_FOUND, "nobody");
  REFUSED(TRITONSERVER_InferenceRequestNew(&r, s, "nobody", -1), TRITONSERVER_ERROR_NOT_FOUND, "nobody");
  REFUSED(TRITONSERVER_ServerLoadModelWithParameters(s, "repeat", 0, 3), TRITONSERVER_ERROR_INVALID_ARG, "parameters");
  REFUSED(TRITONSERVER_ServerPollModelRepository(s), TRITONSERVER_ERROR_UNAVAILABLE, "polling is disabled");
  OK(TRITONSERVER_ServerUnloadModel(s, "nobody"));

  /* a server that is deleted with requests in flight: bounded, answered, released */
  static const int32_t in[2] = {1, 2};
  static const uint32_t delay[2] = {0, 600000}, wait = 0;
  Call c = NEW_CALL;
  request(&c, s, "repeat");
  int64_t many[1] = {2};
  REFUSED(TRITONSERVER_InferenceRequestAddInput(c.request, "IN", TRITONSERVER_TYPE_INT32, 0, 1), TRITONSERVER_ERROR_INVALID_ARG, "null");
  REFUSED(TRITONSERVER_InferenceRequestAddInput(c.request, "IN", TRITONSERVER_TYPE_INT32, many, 1ull << 60),
      TRITONSERVER_ERROR_INVALID_ARG, "dimensions");
  REFUSED(TRITONSERVER_InferenceRequestAppendInputData(c.request, "IN", in, 8, 0, 0), TRITONSERVER_ERROR_INVALID_ARG, "does not exist");
  input(&c, "IN", TRITONSERVER_TYPE_INT32, 2, in, sizeof in);
  REFUSED(TRITONSERVER_InferenceRequestAddInput(c.request, "IN", TRITONSERVER_TYPE_INT32, many, 1), TRITONSERVER_ERROR_INVALID_ARG,
      "already exists");
  REFUSED(TRITONSERVER_InferenceRequestAppendInputData(c.request, "IN", 0, 8, 0, 0), TRITONSERVER_ERROR_INVALID_ARG, "null");
  REFUSED(TRITONSERVER_InferenceRequestAppendInputData(c.request, "IN", in, 8, 9, 0), TRITONSERVER_ERROR_INVALID_ARG, "memory type");
  input(&c, "DELAY", TRITONSERVER_TYPE_UINT32, 2, delay, sizeof delay);
  input(&c, "WAIT", TRITONSERVER_TYPE_UINT32, 1, &wait, sizeof wait);
  OK(TRITONSERVER_ServerInferAsync(s, c.request, 0));
  await(&c, &c.responses, 1);
  OK(TRITONSERVER_ServerSetExitTimeout(s, 1));
  REFUSED(TRITONSERVER_ServerStop(s), TRITONSERVER_ERROR_INTERNAL, "Exit timeout expired. Exiting immediately.");
  REFUSED(TRITONSERVER_ServerIsLive(s, &live), TRITONSERVER_ERROR_UNAVAILABLE, "Server exiting");
  REFUSED(TRITONSERVER_ServerIsReady(s, &ready), TRITONSERVER_ERROR_UNAVAILABLE, "Server exiting");
  REFUSED(TRITONSERVER_ServerModelIndex(s, 0, &m), TRITONSERVER_ERROR_UNAVAILABLE, "Server not ready");
  REFUSED(TRITONSERVER_ServerModelStatistics(s, "", -1, &m), TRITONSERVER_ERROR_UNAVAILABLE, "Server not ready");
  await(&c, &c.finals, 1);
  await(&c, &c.released, 1);
  OK(TRITONSERVER_ServerDelete(s));
  REFUSED(TRITONSERVER_ServerDelete(s), TRITONSERVER_ERROR_INVALID_ARG, "deleted");
  REFUSED(TRITONSERVER_ServerIsLive(s, &live), TRITONSERVER_ERROR_INVALID_ARG, "deleted");
  REFUSED(TRITONSERVER_ServerInferAsync(s, c.request, 0), TRITONSERVER_ERROR_INVALID_ARG, "deleted");
  OK(TRITONSERVER_InferenceRequestDelete(c.request));
  REFUSED(TRITONSERVER_InferenceRequestDelete(c.request), TRITONSERVER_ERROR_INVALID_ARG, "deleted");
  OK(TRITONSERVER_InferenceResponseDelete(c.last));
  REFUSED(TRITONSERVER_InferenceResponseDelete(c.last), TRITONSERVER_ERROR_INVALID_ARG, "deleted");
}

/* a server that is deleted without a stop, with requests in flight: they are answered and released before */
static void deleted(const char* repository) {
  TRITONSERVER_Server* s = serve(options(repository), "repeat");
  static Call calls[20];
  OK(TRITONSERVER_ServerSetExitTimeout(s, 1));
  for (int i = 0; i < 20; i++) {
    Call fresh = NEW_CALL;
    calls[i] = fresh;
    request(calls + i, s, "repeat");
    slow_inputs(calls + i);
    OK(TRITONSERVER_ServerInferAsync(s, calls[i].request, 0));
  }
  OK(TRITONSERVER_ServerDelete(s));
  for (int i = 0; i < 20; i++) {
    end(calls + i);
    WANT(calls[i].finals == 1 && calls[i].released == 1 && calls[i].given == calls[i].freed);
  }
}

/* callbacks that fail */
static Error no_memory(TRITONSERVER_ResponseAllocator* a, const char* name, size_t size, TRITONSERVER_MemoryType type, int64_t id,
                       void* user, void** buffer, void** buffer_user, TRITONSERVER_MemoryType* got, int64_t* got_id) {
  (void)a; (void)name; (void)size; (void)type; (void)id; (void)user; (void)buffer; (void)buffer_user; (void)got; (void)got_id;
  return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "no memory today");
}

static void failing(const char* repository) {
  TRITONSERVER_Server* s = serve(options(repository), "repeat");
  TRITONSERVER_ResponseAllocator* a;
  Call c = NEW_CALL;
  request(&c, s, "repeat");
  slow_inputs(&c);
  OK(TRITONSERVER_InferenceRequestSetReleaseCallback(c.request, 0, 0));
  REFUSED(TRITONSERVER_ServerInferAsync(s, c.request, 0), TRITONSERVER_ERROR_INVALID_ARG, "callback");
  OK(TRITONSERVER_ResponseAllocatorNew(&a, no_memory, on_free, 0));
  OK(TRITONSERVER_InferenceRequestSetReleaseCallback(c.request, on_release, &c));
  OK(TRITONSERVER_InferenceRequestSetResponseCallback(c.request, a, &c, on_response, &c));
  OK(TRITONSERVER_ServerInferAsync(s, c.request, 0));
  await(&c, &c.responses, 1);
  Error e = TRITONSERVER_InferenceResponseError(c.last);
  WANT(e && TRITONSERVER_ErrorCode(e) == TRITONSERVER_ERROR_UNAVAILABLE && strstr(TRITONSERVER_ErrorMessage(e), "no memory today"));
  OK(TRITONSERVER_InferenceRequestCancel(c.request));
  end(&c);
  OK(TRITONSERVER_ServerDelete(s));
}

static void never_back(Call* c, int* what) {
  pthread_mutex_lock(&c->lock);
  ++*what;
  pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->lock);
  for (;;) pause();
}

static Error stuck_alloc(TRITONSERVER_ResponseAllocator* a, const char* name, size_t size, TRITONSERVER_MemoryType type, int64_t id,
                         void* user, void** buffer, void** buffer_user, TRITONSERVER_MemoryType* got, int64_t* got_id) {
  (void)a; (void)name; (void)size; (void)type; (void)id; (void)buffer; (void)buffer_user; (void)got; (void)got_id;
  never_back(user, &((Call*)user)->given);
  return 0;
}

static void stuck_response(TRITONSERVER_InferenceResponse* r, uint32_t flags, void* user) {
  (void)r; (void)flags;
  never_back(user, &((Call*)user)->responses);
}

static void stuck_release(TRITONSERVER_InferenceRequest* r, uint32_t flags, void* user) {
  (void)r; (void)flags;
  never_back(user, &((Call*)user)->released);
}

/* a callback that never comes back holds up a stop, and not for ever */
static struct { Call call; int which; const char* repository; } stops[3]; /* a thread of the server's stays in each */

static void* stuck(void* number) {
  int which = *(int*)number;
  Call *c = &stops[which].call, fresh = NEW_CALL;
  TRITONSERVER_Server* s = serve(options(stops[which].repository), "repeat");
  TRITONSERVER_ResponseAllocator* a;
  *c = fresh;
  OK(TRITONSERVER_ResponseAllocatorNew(&a, which == 0 ? stuck_alloc : on_alloc, on_free, 0));
  OK(TRITONSERVER_InferenceRequestNew(&c->request, s, "repeat", -1));
  OK(TRITONSERVER_InferenceRequestSetReleaseCallback(c->request, which == 2 ? stuck_release : on_release, c));
  OK(TRITONSERVER_InferenceRequestSetResponseCallback(c->request, a, c, which == 1 ? stuck_response : on_response, c));
  slow_inputs(c);
  OK(TRITONSERVER_ServerInferAsync(s, c->request, 0));
  if (which == 2) OK(TRITONSERVER_InferenceRequestCancel(c->request));
  await(c, which == 0 ? &c->given : which == 1 ? &c->responses : &c->released, 1);
  OK(TRITONSERVER_ServerSetExitTimeout(s, 1));
  REFUSED(TRITONSERVER_ServerStop(s), TRITONSERVER_ERROR_INTERNAL, "Exit timeout expired");
  OK(TRITONSERVER_ServerDelete(s));
  return 0;
}

static void all_stuck(const char* repository) {
  pthread_t threads[3];
  allocator(); /* is made by the first that asks */
  for (int i = 0; i < 3; i++) {
    stops[i].which = i;
    stops[i].repository = repository;
    pthread_create(threads + i, 0, stuck, &stops[i].which);
  }
  for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
}

int main(int argc, char** argv) {
  WANT(argc == 2);
  objects();
  option_sets();
  servers(argv[1]);
  deleted(argv[1]);
  failing(argv[1]);
  all_stuck(argv[1]);
  return 0;
}
