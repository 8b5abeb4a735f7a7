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

static void end(Call* c) {
  await(c, &c->finals, 1);
  await(c, &c->released, 1);
  OK(TRITONSERVER_InferenceRequestDelete(c->request));
  if (c->last) OK(TRITONSERVER_InferenceResponseDelete(c->last));
}

static void echo(TRITONSERVER_Server* s, const char* model, const char* what, int n) {
  static int32_t data[1 << 18];
  const char* name;
  TRITONSERVER_DataType type;
  const int64_t* shape;
  uint64_t dims;
  const void* base;
  size_t size;
  TRITONSERVER_MemoryType memory;
  int64_t id;
  void* user;
  for (int i = 0; i < n; i++) data[i] = i ^ n;
  Call c = NEW_CALL;
  send(&c, s, model, what, data, n);
  await(&c, &c.finals, 1);
  Error e = TRITONSERVER_InferenceResponseError(c.last);
  if (e) FAIL("%s %s: %s", model, what, TRITONSERVER_ErrorMessage(e));
  OK(TRITONSERVER_InferenceResponseOutput(c.last, 0, &name, &type, &shape, &dims, &base, &size, &memory, &id, &user));
  WANT(size == 4u * n && !memcmp(base, data, size) && !strcmp(name, "OUT0"));
  end(&c);
}

static void* hammer(void* server) {
  for (int i = 0; i < 300; i++) echo(server, i % 2 ? "ident" : "two", 0, 16);
  return 0;
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
  WANT(many.responses == 1000);
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
