/* What a trace tells of an ensemble, and of a request that is refused.
 * usage: trace REPOSITORY */
#include "check.h"

static char seen[4096];
static int released;

static void on_activity(TRITONSERVER_InferenceTrace* t, TRITONSERVER_InferenceTraceActivity a, uint64_t ns, void* user) {
  (void)user;
  const char* model;
  OK(TRITONSERVER_InferenceTraceModelName(t, &model));
  WANT(ns);
  strcat(strcat(strcat(strcat(seen, model), ":"), TRITONSERVER_InferenceTraceActivityString(a)), " ");
}

static void on_trace_release(TRITONSERVER_InferenceTrace* t, void* user) {
  (void)user;
  OK(TRITONSERVER_InferenceTraceDelete(t));
  REFUSED(TRITONSERVER_InferenceTraceDelete(t), TRITONSERVER_ERROR_INVALID_ARG, "deleted");
  released++;
}

static TRITONSERVER_InferenceTrace* trace(void) {
  TRITONSERVER_InferenceTrace* t;
  OK(TRITONSERVER_InferenceTraceNew(&t, TRITONSERVER_TRACE_LEVEL_TIMESTAMPS, 0, on_activity, on_trace_release, 0));
  return t;
}

int main(int argc, char** argv) {
  WANT(argc == 2);
  static const float values[2] = {1, 2};
  TRITONSERVER_Server* s = serve(options(argv[1]), "chain");
  Call c = NEW_CALL;
  request(&c, s, "chain");
  REFUSED(TRITONSERVER_ServerInferAsync(s, c.request, trace()), TRITONSERVER_ERROR_INVALID_ARG, "expected 1 inputs but got 0");
  WANT(released == 1); /* also the trace of what was refused comes back */
  *seen = 0;
  input(&c, "X", TRITONSERVER_TYPE_FP32, 2, values, sizeof values);
  OK(TRITONSERVER_ServerInferAsync(s, c.request, trace()));
  await(&c, &c.finals, 1);
  await(&c, &c.released, 1);
  WANT(released == 3);
  const char* want =
      "chain:REQUEST_START chain:QUEUE_START identity:REQUEST_START identity:QUEUE_START identity:COMPUTE_START identity:COMPUTE_INPUT_END "
      "identity:COMPUTE_OUTPUT_START identity:COMPUTE_END identity:REQUEST_END chain:REQUEST_END ";
  if (strcmp(seen, want)) FAIL("%s", seen);
  OK(TRITONSERVER_InferenceRequestDelete(c.request));
  OK(TRITONSERVER_InferenceResponseDelete(c.last));
  OK(TRITONSERVER_ServerDelete(s));
  return 0;
}
