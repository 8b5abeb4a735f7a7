/* Requests in process: pieces, reuse, what callbacks see and when, refusals, streams,
 * cancellation, two servers at once. usage: infer REPOSITORY */
#include "check.h"

static const float values[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* the answer is one output, with these values */
static void answered(Call* c, const void* want, size_t size) {
  Output o = output(c, 0);
  WANT(!strcmp(o.name, "Y") && o.type == TRITONSERVER_TYPE_FP32 && o.dims == 1 && o.shape[0] == (int64_t)(size / 4));
  WANT(o.size == size && o.memory == TRITONSERVER_MEMORY_CPU && o.user == c && (!size || !memcmp(o.base, want, size)));
  REFUSED(TRITONSERVER_InferenceResponseOutput(c->last, 1, &o.name, &o.type, &o.shape, &o.dims, &o.base, &o.size, &o.memory, &o.id,
      &o.user),
          TRITONSERVER_ERROR_INVALID_ARG, "out of bounds index 1: response has 1 outputs");
}

/* pieces, and the same request again */
static void reuse(TRITONSERVER_Server* s) {
  Call c = NEW_CALL;
  request(&c, s, "identity");
  for (int round = 1; round <= 3; round++) {
    int64_t n = 16;
    OK(TRITONSERVER_InferenceRequestAddInput(c.request, "X", TRITONSERVER_TYPE_FP32, &n, 1));
    for (int i = 0; i < 16; i += 4)
      OK(TRITONSERVER_InferenceRequestAppendInputData(c.request, "X", values + i, 16, TRITONSERVER_MEMORY_CPU, 0));
    OK(TRITONSERVER_ServerInferAsync(s, c.request, 0));
    await(&c, &c.finals, round);
    await(&c, &c.released, round);
    answered(&c, values, sizeof values);
    WANT(c.responses == round && c.starts == round && c.given == round);
    OK(TRITONSERVER_InferenceRequestRemoveAllInputs(c.request));
  }
  input(&c, "X", TRITONSERVER_TYPE_FP32, 0, 0, 0);
  OK(TRITONSERVER_ServerInferAsync(s, c.request, 0));
  await(&c, &c.finals, 4);
  await(&c, &c.released, 4);
  answered(&c, values, 0);
  end(&c);
  WANT(c.freed == 3); /* the last one had no memory */
}

/* a raw input has the type and shape of the model */
static void raw(TRITONSERVER_Server* s) {
  Call c = NEW_CALL;
  request(&c, s, "identity");
  OK(TRITONSERVER_InferenceRequestAddRawInput(c.request, "anything"));
  OK(TRITONSERVER_InferenceRequestAppendInputData(c.request, "anything", values, sizeof values, TRITONSERVER_MEMORY_CPU, 0));
  OK(TRITONSERVER_ServerInferAsync(s, c.request, 0));
  await(&c, &c.finals, 1);
  answered(&c, values, sizeof values);
  end(&c);
}

/* copies for host policies are the same tensor: the data that is for all is what counts */
static void policies(TRITONSERVER_Server* s) {
  static const float other[16];
  int64_t n = 16;
  Call c = NEW_CALL;
  request(&c, s, "identity");
  OK(TRITONSERVER_InferenceRequestAddInput(c.request, "X", TRITONSERVER_TYPE_FP32, &n, 1));
  OK(TRITONSERVER_InferenceRequestAppendInputDataWithHostPolicy(c.request, "X", other, 64, TRITONSERVER_MEMORY_CPU, 0, "cpu"));
  REFUSED(TRITONSERVER_ServerInferAsync(s, c.request, 0), TRITONSERVER_ERROR_INVALID_ARG, "Expected 64, got 0");
  REFUSED(TRITONSERVER_InferenceRequestAppendInputDataWithHostPolicy(c.request, "X", 0, 64, TRITONSERVER_MEMORY_CPU, 0, "cpu"),
          TRITONSERVER_ERROR_INVALID_ARG, "null");
  OK(TRITONSERVER_InferenceRequestAppendInputData(c.request, "X", values, sizeof values, TRITONSERVER_MEMORY_CPU, 0));
  OK(TRITONSERVER_ServerInferAsync(s, c.request, 0));
  await(&c, &c.finals, 1);
  answered(&c, values, sizeof values);
  end(&c);
}

/* what is refused stays the program's, and calls nothing */
static void refused(TRITONSERVER_Server* s) {
  Call c = NEW_CALL;
  request(&c, s, "identity");
  input(&c, "NO", TRITONSERVER_TYPE_FP32, 16, values, sizeof values);
  REFUSED(TRITONSERVER_ServerInferAsync(s, c.request, 0), TRITONSERVER_ERROR_INVALID_ARG, "NO");
  OK(TRITONSERVER_InferenceRequestRemoveInput(c.request, "NO"));
  input(&c, "X", TRITONSERVER_TYPE_FP32, 15, values, sizeof values);
  REFUSED(TRITONSERVER_ServerInferAsync(s, c.request, 0), TRITONSERVER_ERROR_INVALID_ARG, "X");
  WANT(!c.responses && !c.finals && !c.released && !c.starts);
  OK(TRITONSERVER_InferenceRequestDelete(c.request));
}

/* responses of a decoupled model, and an end without one */
static void stream(TRITONSERVER_Server* s) {
  static const int32_t in[3] = {7, 8, 9};
  static const uint32_t delay[3] = {0, 0, 0}, wait = 0;
  Call c = NEW_CALL;
  request(&c, s, "repeat");
  input(&c, "IN", TRITONSERVER_TYPE_INT32, 3, in, sizeof in);
  input(&c, "DELAY", TRITONSERVER_TYPE_UINT32, 3, delay, sizeof delay);
  input(&c, "WAIT", TRITONSERVER_TYPE_UINT32, 1, &wait, sizeof wait);
  OK(TRITONSERVER_ServerInferAsync(s, c.request, 0));
  end(&c);
  WANT(c.responses == 3 && c.finals == 1);
}

/* a request in flight is the server's; cancelled, it ends */
static void cancel(TRITONSERVER_Server* s) {
  bool is = true;
  Call c = NEW_CALL;
  request(&c, s, "repeat");
  REFUSED(TRITONSERVER_InferenceRequestCancel(c.request), TRITONSERVER_ERROR_INTERNAL, "before calling");
  slow_inputs(&c);
  OK(TRITONSERVER_ServerInferAsync(s, c.request, 0));
  OK(TRITONSERVER_InferenceRequestIsCancelled(c.request, &is));
  WANT(!is);
  await(&c, &c.responses, 1);
  REFUSED(TRITONSERVER_ServerInferAsync(s, c.request, 0), TRITONSERVER_ERROR_INTERNAL, "in flight");
  REFUSED(TRITONSERVER_InferenceRequestDelete(c.request), TRITONSERVER_ERROR_INTERNAL, "in flight");
  REFUSED(TRITONSERVER_InferenceRequestRemoveAllInputs(c.request), TRITONSERVER_ERROR_INTERNAL, "in flight");
  OK(TRITONSERVER_InferenceRequestCancel(c.request));
  await(&c, &c.finals, 1);
  await(&c, &c.released, 1);
  OK(TRITONSERVER_InferenceRequestIsCancelled(c.request, &is));
  WANT(is && c.responses <= 2);
  end(&c);
}

static void* hammer(void* server) {
  for (int i = 0; i < 500; i++) {
    Call c = NEW_CALL;
    request(&c, server, "identity");
    input(&c, "X", TRITONSERVER_TYPE_FP32, 16, values, sizeof values);
    OK(TRITONSERVER_ServerInferAsync(server, c.request, 0));
    await(&c, &c.finals, 1);
    answered(&c, values, sizeof values);
    end(&c);
    WANT(c.given == 1 && c.freed == 1);
  }
  return 0;
}

int main(int argc, char** argv) {
  WANT(argc == 2);
  TRITONSERVER_ServerOptions* o = options(argv[1]);
  OK(TRITONSERVER_ServerOptionsSetStartupModel(o, "repeat"));
  TRITONSERVER_Server *s = serve(o, "identity"), *other = serve(options(argv[1]), "identity");
  reuse(s);
  raw(s);
  policies(s);
  refused(s);
  stream(s);
  cancel(s);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(threads + i, 0, hammer, i % 2 ? s : other);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
  OK(TRITONSERVER_ServerDelete(other)); /* the one goes on without the other */
  reuse(s);
  OK(TRITONSERVER_ServerStop(s));
  OK(TRITONSERVER_ServerDelete(s));
  OK(TRITONSERVER_ResponseAllocatorDelete(allocator()));
  return 0;
}
