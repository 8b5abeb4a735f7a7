/* What a trace tells of a request and of an ensemble, in the order of the peer: until the
 * request waits at once, of its execution once the program has the response, with tensors;
 * and that the trace of a request that is refused comes back. usage: trace REPOSITORY */
#include "check.h"

static char seen[4096];
static int released;
static float tensor;

static void note(const char* model, const char* what, const char* more) {
  strcat(strcat(strcat(strcat(strcat(seen, model), ":"), what), more), " ");
}

static void on_activity(TRITONSERVER_InferenceTrace* t, TRITONSERVER_InferenceTraceActivity a, uint64_t ns, void* user) {
  (void)user;
  const char* model;
  static uint64_t before;
  OK(TRITONSERVER_InferenceTraceModelName(t, &model)); /* no lock is held: all may be asked */
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  WANT(ns && ns <= (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec);
  WANT(a == TRITONSERVER_TRACE_REQUEST_START || ns >= before);
  before = ns;
  note(model, TRITONSERVER_InferenceTraceActivityString(a), "");
}

static void on_tensor(TRITONSERVER_InferenceTrace* t, TRITONSERVER_InferenceTraceActivity a, const char* name, TRITONSERVER_DataType type,
                      const void* base, size_t size, const int64_t* shape, uint64_t dims, TRITONSERVER_MemoryType memory, int64_t id,
                      void* user) {
  (void)user;
  const char* model;
  OK(TRITONSERVER_InferenceTraceModelName(t, &model));
  WANT(type == TRITONSERVER_TYPE_FP32 && size == 8 && dims == 1 && shape[0] == 2 && memory == TRITONSERVER_MEMORY_CPU && !id);
  tensor = ((const float*)base)[1];
  char more[40];
  snprintf(more, sizeof more, "=%s", name);
  note(model, TRITONSERVER_InferenceTraceActivityString(a), more);
}

static void on_trace_release(TRITONSERVER_InferenceTrace* t, void* user) {
  (void)user;
  const char* model;
  OK(TRITONSERVER_InferenceTraceModelName(t, &model));
  note(model, "released", "");
  OK(TRITONSERVER_InferenceTraceDelete(t));
  REFUSED(TRITONSERVER_InferenceTraceDelete(t), TRITONSERVER_ERROR_INVALID_ARG, "deleted");
  released++;
}

static void on_traced_response(TRITONSERVER_InferenceResponse* r, uint32_t flags, void* user) {
  strcat(seen, "RESPONSE ");
  on_response(r, flags, user);
}

static void on_traced_release(TRITONSERVER_InferenceRequest* r, uint32_t flags, void* user) {
  strcat(seen, "RELEASE ");
  on_release(r, flags, user);
}

static TRITONSERVER_InferenceTrace* trace(int level) {
  TRITONSERVER_InferenceTrace* t;
  OK(TRITONSERVER_InferenceTraceTensorNew(&t, level, 0, on_activity, on_tensor, on_trace_release, 0));
  return t;
}

static void traced(TRITONSERVER_Server* s, const char* model, int level, const char* want) {
  static const float values[2] = {1, 2};
  Call c = NEW_CALL;
  request(&c, s, model);
  OK(TRITONSERVER_InferenceRequestSetReleaseCallback(c.request, on_traced_release, &c));
  OK(TRITONSERVER_InferenceRequestSetResponseCallback(c.request, allocator(), &c, on_traced_response, &c));
  input(&c, "X", TRITONSERVER_TYPE_FP32, 2, values, sizeof values);
  *seen = tensor = 0;
  OK(TRITONSERVER_ServerInferAsync(s, c.request, trace(level)));
  await(&c, &c.finals, 1);
  await(&c, &c.released, 1);
  if (strcmp(seen, want)) FAIL("%s\nwant %s", seen, want);
  WANT(tensor == (level & TRITONSERVER_TRACE_LEVEL_TENSORS ? 2 : 0));
  end(&c);
}

int main(int argc, char** argv) {
  WANT(argc == 2);
  TRITONSERVER_Server* s = serve(options(argv[1]), "chain");
  Call c = NEW_CALL;
  request(&c, s, "chain");
  REFUSED(TRITONSERVER_ServerInferAsync(s, c.request, trace(TRITONSERVER_TRACE_LEVEL_TIMESTAMPS)), TRITONSERVER_ERROR_INVALID_ARG,
          "expected 1 inputs but got 0");
  WANT(released == 1); /* also the trace of what was refused comes back */
  OK(TRITONSERVER_InferenceRequestDelete(c.request));
#define STEP(model) \
  model ":COMPUTE_START " model ":COMPUTE_INPUT_END " model ":COMPUTE_OUTPUT_START " \
  model ":COMPUTE_END " model ":REQUEST_END " model ":released "
  traced(s, "identity", TRITONSERVER_TRACE_LEVEL_TIMESTAMPS,
         "identity:REQUEST_START identity:QUEUE_START RESPONSE " STEP("identity") "RELEASE ");
  traced(s, "identity", TRITONSERVER_TRACE_LEVEL_TIMESTAMPS | TRITONSERVER_TRACE_LEVEL_TENSORS,
         "identity:REQUEST_START identity:QUEUE_START identity:TENSOR_QUEUE_INPUT=X identity:TENSOR_BACKEND_OUTPUT=Y RESPONSE "
         STEP("identity") "RELEASE ");
  traced(s, "identity", TRITONSERVER_TRACE_LEVEL_TENSORS,
         "identity:TENSOR_QUEUE_INPUT=X identity:TENSOR_BACKEND_OUTPUT=Y RESPONSE identity:released RELEASE ");
  traced(s, "chain", TRITONSERVER_TRACE_LEVEL_TIMESTAMPS | TRITONSERVER_TRACE_LEVEL_TENSORS,
         "chain:REQUEST_START chain:QUEUE_START chain:TENSOR_QUEUE_INPUT=X "
         "identity:REQUEST_START identity:QUEUE_START identity:TENSOR_QUEUE_INPUT=X identity:TENSOR_BACKEND_OUTPUT=Y " STEP("identity")
         "chain:TENSOR_BACKEND_OUTPUT=Z RESPONSE chain:REQUEST_END chain:released RELEASE ");
  OK(TRITONSERVER_ServerDelete(s));
  return 0;
}
