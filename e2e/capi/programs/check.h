/* What the programs of this folder share: checks that end the program, a request that
 * is waited for, memory for outputs. */
#ifndef NESO_E2E_CHECK_H
#define NESO_E2E_CHECK_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "triton/core/tritonserver.h"

typedef TRITONSERVER_Error* Error;

#define FAIL(...) (fprintf(stderr, "%s:%d: ", __FILE__, __LINE__), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), _exit(1))
#define WANT(x) ((x) ? (void)0 : FAIL("not so: %s", #x))
/* the call succeeds */
#define OK(call) do { Error e_ = (call); if (e_) FAIL("%s: %s", #call, TRITONSERVER_ErrorMessage(e_)); } while (0)
/* the call fails with a code, and with words in its message */
#define REFUSED(call, code, words) do { Error e_ = (call); \
    if (!e_) FAIL("%s: no error", #call); \
    if (TRITONSERVER_ErrorCode(e_) != (code) || !strstr(TRITONSERVER_ErrorMessage(e_), (words))) \
      FAIL("%s: %s: %s", #call, TRITONSERVER_ErrorCodeString(e_), TRITONSERVER_ErrorMessage(e_)); \
    TRITONSERVER_ErrorDelete(e_); } while (0)

typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int responses, finals, released, starts, given, freed;
  TRITONSERVER_InferenceResponse* last;
  TRITONSERVER_InferenceRequest* request;
} Call;

#define NEW_CALL {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0, 0, 0, 0, 0, 0}

static Error on_start(TRITONSERVER_ResponseAllocator* a, void* user) { (void)a; ((Call*)user)->starts++; return 0; }

static Error on_alloc(TRITONSERVER_ResponseAllocator* a, const char* name, size_t size, TRITONSERVER_MemoryType type, int64_t id,
                      void* user, void** buffer, void** buffer_user, TRITONSERVER_MemoryType* got, int64_t* got_id) {
  (void)a; (void)name; (void)type; (void)id;
  *buffer = size ? malloc(size) : 0;
  *buffer_user = user;
  *got = TRITONSERVER_MEMORY_CPU;
  *got_id = 0;
  ((Call*)user)->given++;
  return 0;
}

static Error on_free(TRITONSERVER_ResponseAllocator* a, void* buffer, void* user, size_t size, TRITONSERVER_MemoryType type, int64_t id) {
  (void)a; (void)size; (void)type; (void)id;
  ((Call*)user)->freed++;
  free(buffer);
  return 0;
}

static void on_response(TRITONSERVER_InferenceResponse* r, uint32_t flags, void* user) {
  Call* c = user;
  pthread_mutex_lock(&c->lock);
  if (r) {
    if (c->last) OK(TRITONSERVER_InferenceResponseDelete(c->last));
    c->last = r;
    c->responses++;
  }
  if (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) c->finals++;
  pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->lock);
}

static void on_release(TRITONSERVER_InferenceRequest* r, uint32_t flags, void* user) {
  Call* c = user;
  WANT(r == c->request && flags == TRITONSERVER_REQUEST_RELEASE_ALL);
  pthread_mutex_lock(&c->lock);
  c->released++;
  pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->lock);
}

/* waits until *what is n; a call that does not get there ends the program */
static void await(Call* c, int* what, int n) {
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += 60;
  pthread_mutex_lock(&c->lock);
  while (*what < n)
    if (pthread_cond_timedwait(&c->changed, &c->lock, &end)) FAIL("%d of %d after a minute", *what, n);
  pthread_mutex_unlock(&c->lock);
}

/* waits until the request is the program's again, and deletes all of the call */
static void end(Call* c) {
  await(c, &c->finals, 1);
  await(c, &c->released, 1);
  OK(TRITONSERVER_InferenceRequestDelete(c->request));
  if (c->last) OK(TRITONSERVER_InferenceResponseDelete(c->last));
}

typedef struct {
  const char* name;
  TRITONSERVER_DataType type;
  const int64_t* shape;
  uint64_t dims;
  const void* base;
  size_t size;
  TRITONSERVER_MemoryType memory;
  int64_t id;
  void* user;
} Output;

/* an output of the last response, which is not an error */
static Output output(Call* c, uint32_t index) {
  Output o;
  Error e = TRITONSERVER_InferenceResponseError(c->last);
  if (e) FAIL("%s", TRITONSERVER_ErrorMessage(e));
  OK(TRITONSERVER_InferenceResponseOutput(c->last, index, &o.name, &o.type, &o.shape, &o.dims, &o.base, &o.size, &o.memory, &o.id,
      &o.user));
  return o;
}

static TRITONSERVER_ResponseAllocator* allocator(void) {
  static TRITONSERVER_ResponseAllocator* a;
  if (!a) OK(TRITONSERVER_ResponseAllocatorNew(&a, on_alloc, on_free, on_start));
  return a;
}

static void request(Call* c, TRITONSERVER_Server* s, const char* model) {
  OK(TRITONSERVER_InferenceRequestNew(&c->request, s, model, -1));
  OK(TRITONSERVER_InferenceRequestSetReleaseCallback(c->request, on_release, c));
  OK(TRITONSERVER_InferenceRequestSetResponseCallback(c->request, allocator(), c, on_response, c));
}

static void input(Call* c, const char* name, TRITONSERVER_DataType type, int64_t n, const void* data, size_t size) {
  OK(TRITONSERVER_InferenceRequestAddInput(c->request, name, type, &n, 1));
  OK(TRITONSERVER_InferenceRequestAppendInputData(c->request, name, data, size, TRITONSERVER_MEMORY_CPU, 0));
}

/* inputs of the model `repeat`, which answers once at once, and then in ten minutes */
static void slow_inputs(Call* c) {
  static const int32_t in[2] = {1, 2};
  static const uint32_t delay[2] = {0, 600000}, wait = 0;
  input(c, "IN", TRITONSERVER_TYPE_INT32, 2, in, sizeof in);
  input(c, "DELAY", TRITONSERVER_TYPE_UINT32, 2, delay, sizeof delay);
  input(c, "WAIT", TRITONSERVER_TYPE_UINT32, 1, &wait, sizeof wait);
}

/* options of a server that loads the models that it is told to */
static TRITONSERVER_ServerOptions* options(const char* repository) {
  TRITONSERVER_ServerOptions* o;
  OK(TRITONSERVER_ServerOptionsNew(&o));
  OK(TRITONSERVER_ServerOptionsSetModelRepositoryPath(o, repository));
  OK(TRITONSERVER_ServerOptionsSetModelControlMode(o, TRITONSERVER_MODEL_CONTROL_EXPLICIT));
  OK(TRITONSERVER_ServerOptionsSetStrictModelConfig(o, 0));
  OK(TRITONSERVER_ServerOptionsSetLogInfo(o, 0));
  return o;
}

static TRITONSERVER_Server* serve(TRITONSERVER_ServerOptions* o, const char* model) {
  TRITONSERVER_Server* s;
  if (model) OK(TRITONSERVER_ServerOptionsSetStartupModel(o, model));
  OK(TRITONSERVER_ServerNew(&s, o));
  OK(TRITONSERVER_ServerOptionsDelete(o));
  return s;
}

/* the text of a message, which is deleted; good until the next one */
static const char* text(TRITONSERVER_Message* m) {
  static char copy[1 << 20];
  const char* base;
  size_t size;
  OK(TRITONSERVER_MessageSerializeToJson(m, &base, &size));
  WANT(size < sizeof copy);
  memcpy(copy, base, size);
  copy[size] = 0;
  OK(TRITONSERVER_MessageDelete(m));
  return copy;
}

#endif
