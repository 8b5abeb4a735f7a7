/* Backend libraries in the process of the program (`isolation: none`): one library for all
 * its models, in threads of this process, also when it is loaded again, calls the server,
 * streams, or does not come back at the end.
 * usage: here REPOSITORY BACKENDS LIBRARY */
#include <dlfcn.h>

#include "check.h"

static TRITONSERVER_Server* start(const char* repository, const char* backends) {
  TRITONSERVER_ServerOptions* o = options(repository);
  OK(TRITONSERVER_ServerOptionsSetBackendDirectory(o, backends));
  OK(TRITONSERVER_ServerOptionsSetStartupModel(o, "ident"));
  OK(TRITONSERVER_ServerOptionsSetStartupModel(o, "two"));
  return serve(o, "asks");
}

static void* library(const char* path) { return dlopen(path, RTLD_NOW | RTLD_NOLOAD); }

static void send(Call* c, TRITONSERVER_Server* s, const char* model, const char* what, const void* data, int n) {
  int64_t shape[2] = {1, n};
  request(c, s, model);
  OK(TRITONSERVER_InferenceRequestAddInput(c->request, "IN0", TRITONSERVER_TYPE_INT32, shape, 2));
  OK(TRITONSERVER_InferenceRequestAppendInputData(c->request, "IN0", data, 4 * n, TRITONSERVER_MEMORY_CPU, 0));
  if (what) OK(TRITONSERVER_InferenceRequestSetStringParameter(c->request, "do", what));
  OK(TRITONSERVER_InferenceRequestSetStringParameter(c->request, "to", "ident"));
  OK(TRITONSERVER_ServerInferAsync(s, c->request, 0));
}

static void echo(TRITONSERVER_Server* s, const char* model, const char* what, int n) {
  static int32_t data[1 << 18];
  for (int i = 0; i < n; i++) data[i] = i ^ n;
  Call c = NEW_CALL;
  send(&c, s, model, what, data, n);
  await(&c, &c.finals, 1);
  Output o = output(&c, 0);
  WANT(o.size == 4u * n && !memcmp(o.base, data, o.size) && !strcmp(o.name, "OUT0"));
  end(&c);
  WANT(c.starts >= 1 && c.given == c.freed); /* all that the library has asked for, once each */
}

static void* hammer(void* server) {
  for (int i = 0; i < 300; i++) echo(server, i % 2 ? "ident" : "two", 0, 16);
  return 0;
}

/* What breaks the contract is an error here, too: of the call, or of the request. The program goes on. */
static void misuse(TRITONSERVER_Server* s) {
  static const char* const refused[] = {"twice", "release_twice", "after_release", "misuse"};
  static const char* const fails[] = {"never", "wrong_size"};
  static const int32_t three[3] = {1, 2, 3};
  OK(TRITONSERVER_ServerLoadModel(s, "one"));
  for (int i = 0; i < 4; i++) echo(s, "one", refused[i], 3);
  for (int i = 0; i < 2; i++) {
    Call c = NEW_CALL;
    send(&c, s, "one", fails[i], three, 3);
    await(&c, &c.finals, 1);
    Error e = TRITONSERVER_InferenceResponseError(c.last);
    WANT(e && strstr(TRITONSERVER_ErrorMessage(e), "backend 'behave' broke its contract"));
    end(&c);
    WANT(c.given == c.freed);
    echo(s, "one", 0, 3);
  }
}

int main(int argc, char** argv) {
  WANT(argc == 4);
  WANT(!library(argv[3]));
  TRITONSERVER_Server* s = start(argv[1], argv[2]);
  WANT(library(argv[3]));
  echo(s, "ident", 0, 3);
  echo(s, "two", 0, 1 << 18);
  echo(s, "asks", "", 3);         /* calls another model of this process */
  echo(s, "asks", "describe", 3); /* and the server */
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(threads + i, 0, hammer, s);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
  REFUSED(TRITONSERVER_ServerLoadModel(s, "bounded"), TRITONSERVER_ERROR_INVALID_ARG, "bounds a process");
  OK(TRITONSERVER_ServerUnloadModel(s, "ident"));
  bool ready = true;
  while (ready) OK(TRITONSERVER_ServerModelIsReady(s, "ident", -1, &ready));
  echo(s, "two", 0, 3);
  OK(TRITONSERVER_ServerLoadModel(s, "ident"));
  echo(s, "ident", 0, 3);

  /* a stream, and a request that is cancelled while the library has it */
  OK(TRITONSERVER_ServerLoadModel(s, "behave"));
  static const int32_t three[3] = {1, 2, 3};
  Call many = NEW_CALL;
  send(&many, s, "behave", "many", three, 3);
  end(&many);
  WANT(many.responses == 1000 && many.starts == 1000 && many.given == 1000 && many.freed == 1000);
  misuse(s);
  OK(TRITONSERVER_ServerDelete(s));

  /* a library that never comes back holds up the stop as long as the exit timeout */
  s = start(argv[1], argv[2]);
  OK(TRITONSERVER_ServerLoadModel(s, "behave"));
  Call stuck = NEW_CALL;
  send(&stuck, s, "behave", "hang", three, 3);
  OK(TRITONSERVER_ServerSetExitTimeout(s, 1));
  REFUSED(TRITONSERVER_ServerStop(s), TRITONSERVER_ERROR_INTERNAL, "Exit timeout expired");
  end(&stuck);
  OK(TRITONSERVER_ServerDelete(s));
  fprintf(stderr, "the end\n");
  _exit(0);
}
