/* Requests that one thread sends back to back are executed in that order; those that wait
 * for their turn are answered when they are cancelled.
 * usage: order REPOSITORY [BACKENDS MODEL [ROUNDS]], where a model called batched has batches */
#include "check.h"

enum { COUNT = 300 };
static Call calls[COUNT];
static int32_t numbers[COUNT];
static const char* model = "counts";

static int32_t answer(Call* c) {
  Output o = output(c, 0);
  WANT(o.size == 4);
  return *(const int32_t*)o.base;
}

static void send(TRITONSERVER_Server* s, Call* c, int32_t* number) {
  Call fresh = NEW_CALL;
  *c = fresh;
  int64_t shape[2] = {1, 1};
  request(c, s, model);
  OK(TRITONSERVER_InferenceRequestAddInput(c->request, "N", TRITONSERVER_TYPE_INT32, shape, strstr(model, "batched") ? 2 : 1));
  OK(TRITONSERVER_InferenceRequestAppendInputData(c->request, "N", number, sizeof *number, TRITONSERVER_MEMORY_CPU, 0));
  OK(TRITONSERVER_ServerInferAsync(s, c->request, 0));
}

int main(int argc, char** argv) {
  WANT(argc == 2 || argc == 4 || argc == 5);
  TRITONSERVER_ServerOptions* o = options(argv[1]);
  if (argc > 2) {
    OK(TRITONSERVER_ServerOptionsSetBackendDirectory(o, argv[2]));
    model = argv[3];
  }
  TRITONSERVER_Server* s = serve(o, model);
  int32_t last = 0, until_cancelled = 1, rounds = argc == 5 ? atoi(argv[4]) : 5;
  for (int round = 0; round < rounds; round++) {
    for (int i = 0; i < COUNT; i++) send(s, calls + i, numbers + i);
    for (int i = 0; i < COUNT; i++) {
      await(calls + i, &calls[i].finals, 1);
      if (answer(calls + i) != ++last) FAIL("round %d: request %d was executed as number %d, not %d", round, i, answer(calls + i), last);
      end(calls + i);
    }
  }
  static Call first, second, third;
  send(s, &first, &until_cancelled);
  send(s, &second, numbers);
  send(s, &third, numbers);
  OK(TRITONSERVER_InferenceRequestCancel(second.request));
  await(&second, &second.finals, 1);
  WANT(!first.finals && !third.finals);
  Error e = TRITONSERVER_InferenceResponseError(second.last);
  WANT(e && TRITONSERVER_ErrorCode(e) == TRITONSERVER_ERROR_CANCELLED);
  OK(TRITONSERVER_InferenceRequestCancel(first.request));
  end(&first);
  end(&second);
  await(&third, &third.finals, 1);
  /* Those cancelled have no number if they still waited, and one if the library was given them, or will be: they were in its channel. */
  WANT(answer(&third) > last && answer(&third) <= last + (argc > 2 ? 3 : 2));
  end(&third);
  OK(TRITONSERVER_ServerDelete(s));
  return 0;
}
