/* A program may hold a lock of its own while it sends, which its callbacks take: whatever
 * becomes of the request, nobody is called on the thread that sends.
 * usage: locked REPOSITORY, with a model `dies` that batches and whose process ends with each request */
#include "check.h"

static TRITONSERVER_Server* server;

/* sends a request, and returns what it is answered with; good until the next one */
static const char* answer(const char* id) {
  static char said[512];
  static const float value = 1;
  int64_t shape[2] = {1, 1};
  Call c = NEW_CALL;
  request(&c, server, "dies");
  OK(TRITONSERVER_InferenceRequestSetId(c.request, id));
  OK(TRITONSERVER_InferenceRequestAddInput(c.request, "X", TRITONSERVER_TYPE_FP32, shape, 2));
  OK(TRITONSERVER_InferenceRequestAppendInputData(c.request, "X", &value, sizeof value, TRITONSERVER_MEMORY_CPU, 0));
  pthread_mutex_lock(&c.lock);
  Error e = TRITONSERVER_ServerInferAsync(server, c.request, 0);
  pthread_mutex_unlock(&c.lock);
  if (e) FAIL("refused: %s", TRITONSERVER_ErrorMessage(e));
  await(&c, &c.finals, 1);
  e = TRITONSERVER_InferenceResponseError(c.last);
  snprintf(said, sizeof said, "%s", e ? TRITONSERVER_ErrorMessage(e) : "");
  end(&c);
  return said;
}

int main(int argc, char** argv) {
  WANT(argc == 2);
  alarm(60); /* a thread that waits for itself ends otherwise never */
  server = serve(options(argv[1]), "dies");
  for (int n = 0; !strstr(answer("one"), "the worker keeps dying"); n++) WANT(n < 1000);
  OK(TRITONSERVER_ServerDelete(server));
  return 0;
}
