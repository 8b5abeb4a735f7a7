/* Programs that let nothing stand: requests, responses, allocators and servers are deleted in callbacks and by other
 * threads while libraries in this process answer, are cancelled, or are stopped without time.
 * usage: hostile REPOSITORY BACKENDS ROUNDS SEED */
#include <stdatomic.h>

#include "check.h"

static const char* const models[] = {"one", "behave", "two", "ident"};
static const char* const deeds[] = {0,       0,            0,              "late", "never",  "twice",
                                    "error", "wrong_size", "error_return", "many", "pieces", "release_twice"};

/* one request with all that is its own, which ends with the last that refers to it */
typedef struct {
  pthread_mutex_t lock;
  TRITONSERVER_ResponseAllocator* allocator;
  TRITONSERVER_InferenceRequest* request;
  int32_t* data;
  unsigned seed;
  bool may_fail; /* the library answers and releases what it gets no memory for */
  int refs; /* final response, release, memory, who sends */
  bool final, released;
} Shot;

static _Atomic int open_shots, sent, refused, failed, answered;
static _Atomic bool over;
static _Atomic(TRITONSERVER_Server*) now;

static void ignore(Error e) {
  if (e) TRITONSERVER_ErrorDelete(e);
}

static void drop(Shot* s) {
  pthread_mutex_lock(&s->lock);
  int left = --s->refs;
  pthread_mutex_unlock(&s->lock);
  WANT(left >= 0);
  if (left) return;
  OK(TRITONSERVER_InferenceRequestDelete(s->request));
  OK(TRITONSERVER_ResponseAllocatorDelete(s->allocator));
  memset(s->data, 0x55, 4000);
  free(s->data);
  memset(s, 0x55, sizeof *s);
  free(s);
  atomic_fetch_sub(&open_shots, 1);
}

/* something that the interface allows at any time */
static void meddle(Shot* s) {
  TRITONSERVER_Message* m = 0;
  bool ready;
  pthread_mutex_lock(&s->lock);
  unsigned what = rand_r(&s->seed) % 12;
  TRITONSERVER_InferenceRequest* r = s->released ? 0 : s->request;
  pthread_mutex_unlock(&s->lock);
  TRITONSERVER_Server* server = atomic_load(&now);
  switch (what) {
    case 0: if (r) ignore(TRITONSERVER_InferenceRequestCancel(r)); break;
    case 1: if (r) ignore(TRITONSERVER_InferenceRequestDelete(r)); break; /* it is in flight, or another thread's by now */
    case 2: ignore(TRITONSERVER_ServerModelIsReady(server, "two", -1, &ready)); break;
    case 3: usleep(300); break;
    case 4: ignore(TRITONSERVER_ServerModelStatistics(server, "", -1, &m)); if (m) OK(TRITONSERVER_MessageDelete(m)); break;
    case 5: if (r) ignore(TRITONSERVER_InferenceRequestRemoveAllInputs(r)); break;
    default: break;
  }
}

static void alive(Shot* s) {
  pthread_mutex_lock(&s->lock);
  WANT(!s->final && s->refs > 0);
  pthread_mutex_unlock(&s->lock);
}

static Error starts(TRITONSERVER_ResponseAllocator* a, void* user) {
  Shot* s = user;
  WANT(a == s->allocator);
  alive(s);
  meddle(s);
  alive(s);
  return 0;
}

static Error gives(TRITONSERVER_ResponseAllocator* a, const char* name, size_t size, TRITONSERVER_MemoryType type, int64_t id, void* user,
                   void** buffer, void** buffer_user, TRITONSERVER_MemoryType* got, int64_t* got_id) {
  Shot* s = user;
  (void)type, (void)id;
  WANT(a == s->allocator && !strcmp(name, "OUT0"));
  alive(s);
  meddle(s);
  alive(s);
  if (s->may_fail && rand_r(&s->seed) % 20 == 0) return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "not now");
  pthread_mutex_lock(&s->lock);
  if (size) s->refs++;
  pthread_mutex_unlock(&s->lock);
  *buffer = size ? malloc(size) : 0;
  *buffer_user = s;
  *got = TRITONSERVER_MEMORY_CPU;
  *got_id = 0;
  return 0;
}

static Error takes(TRITONSERVER_ResponseAllocator* a, void* buffer, void* user, size_t size, TRITONSERVER_MemoryType type, int64_t id) {
  (void)a, (void)type, (void)id;
  memset(buffer, 0x55, size);
  free(buffer);
  drop(user);
  return 0;
}

static void* deletes(void* response) {
  OK(TRITONSERVER_InferenceResponseDelete(response));
  return 0;
}

static void aside(void* (*f)(void*), void* arg) {
  pthread_t thread;
  WANT(!pthread_create(&thread, 0, f, arg));
  pthread_detach(thread);
}

static void responds(TRITONSERVER_InferenceResponse* r, uint32_t flags, void* user) {
  Shot* s = user;
  bool final = flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL;
  alive(s);
  meddle(s);
  if (r) {
    Error e = TRITONSERVER_InferenceResponseError(r);
    atomic_fetch_add(e ? &failed : &answered, 1);
    if (!e) {
      const char *name, *base;
      TRITONSERVER_DataType type;
      const int64_t* shape;
      uint64_t dims;
      size_t size;
      TRITONSERVER_MemoryType memory;
      int64_t id;
      void* of;
      uint32_t n;
      OK(TRITONSERVER_InferenceResponseOutputCount(r, &n));
      for (uint32_t i = 0, sum = 0; i < n; i++) {
        OK(TRITONSERVER_InferenceResponseOutput(r, i, &name, &type, &shape, &dims, (const void**)&base, &size, &memory, &id, &of));
        for (size_t k = 0; k < size; k++) sum += base[k];
        WANT(sum != 1);
      }
    }
    if (rand_r(&s->seed) % 4) {
      deletes(r);
    } else {
      aside(deletes, r);
    }
  }
  if (!final) return;
  pthread_mutex_lock(&s->lock);
  WANT(!s->final);
  s->final = true;
  pthread_mutex_unlock(&s->lock);
  drop(s);
}

static void releases(TRITONSERVER_InferenceRequest* r, uint32_t flags, void* user) {
  Shot* s = user;
  WANT(r == s->request && flags == TRITONSERVER_REQUEST_RELEASE_ALL);
  pthread_mutex_lock(&s->lock);
  WANT(!s->released);
  s->released = true;
  pthread_mutex_unlock(&s->lock);
  OK(TRITONSERVER_InferenceRequestRemoveAllInputs(r)); /* it is ours again */
  memset(s->data, 0x55, 4000);
  drop(s);
}

static void shoot(unsigned* seed) {
  Shot* s = calloc(1, sizeof *s);
  pthread_mutex_init(&s->lock, 0);
  s->seed = rand_r(seed);
  s->data = malloc(4000);
  for (int i = 0; i < 1000; i++) s->data[i] = 2 * i;
  s->refs = 3;
  TRITONSERVER_Server* server = atomic_load(&now);
  const char* what = deeds[rand_r(seed) % (sizeof deeds / sizeof *deeds)];
  int model = rand_r(seed) % 4;
  s->may_fail = model > 1;
  Error e = TRITONSERVER_InferenceRequestNew(&s->request, server, models[model], -1);
  if (e) {
    ignore(e);
    atomic_fetch_add(&refused, 1);
    free(s->data);
    free(s);
    usleep(200);
    return;
  }
  atomic_fetch_add(&open_shots, 1);
  int n = 1 + rand_r(seed) % 900, first = n / 3;
  int64_t shape[2] = {1, n};
  OK(TRITONSERVER_ResponseAllocatorNew(&s->allocator, gives, takes, starts));
  OK(TRITONSERVER_InferenceRequestSetReleaseCallback(s->request, releases, s));
  OK(TRITONSERVER_InferenceRequestSetResponseCallback(s->request, s->allocator, s, responds, s));
  OK(TRITONSERVER_InferenceRequestAddInput(s->request, "IN0", TRITONSERVER_TYPE_INT32, shape, 2));
  if (rand_r(seed) % 2) {
    OK(TRITONSERVER_InferenceRequestAppendInputData(s->request, "IN0", s->data, 4 * first, TRITONSERVER_MEMORY_CPU, 0));
    OK(TRITONSERVER_InferenceRequestAppendInputData(s->request, "IN0", s->data + first, 4 * (n - first), TRITONSERVER_MEMORY_CPU, 0));
  } else {
    OK(TRITONSERVER_InferenceRequestAppendInputData(s->request, "IN0", s->data, 4 * n, TRITONSERVER_MEMORY_CPU, 0));
  }
  if (what) OK(TRITONSERVER_InferenceRequestSetStringParameter(s->request, "do", what));
  if (rand_r(seed) % 4 == 0) OK(TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(s->request, 1 + rand_r(seed) % 2000));
  e = TRITONSERVER_ServerInferAsync(server, s->request, 0);
  if (e) {
    ignore(e);
    atomic_fetch_add(&refused, 1);
    drop(s);
    drop(s);
  } else {
    atomic_fetch_add(&sent, 1);
    if (rand_r(seed) % 2) meddle(s);
  }
  drop(s);
}

static void* shoots(void* seed) {
  unsigned of = (unsigned)(uintptr_t)seed;
  while (!atomic_load(&over)) {
    shoot(&of);
    while (atomic_load(&open_shots) > 60 && !atomic_load(&over)) usleep(100);
  }
  return 0;
}

static void* ends_it(void* server) {
  ignore(TRITONSERVER_ServerDelete(server));
  return 0;
}

int main(int argc, char** argv) {
  WANT(argc == 5);
  unsigned seed = atoi(argv[4]);
  pthread_t threads[3];
  for (int round = 0; round < atoi(argv[3]); round++) {
    TRITONSERVER_ServerOptions* o = options(argv[1]);
    OK(TRITONSERVER_ServerOptionsSetBackendDirectory(o, argv[2]));
    OK(TRITONSERVER_ServerOptionsSetLogError(o, 0));
    OK(TRITONSERVER_ServerOptionsSetLogWarn(o, 0));
    for (int i = 1; i < 4; i++) OK(TRITONSERVER_ServerOptionsSetStartupModel(o, models[i]));
    TRITONSERVER_Server* s = serve(o, models[0]);
    atomic_store(&now, s);
    if (!round)
      for (int i = 0; i < 3; i++) pthread_create(threads + i, 0, shoots, (void*)(uintptr_t)(seed * 16 + i));
    usleep(1000 * (rand_r(&seed) % 150));
    if (rand_r(&seed) % 2) ignore(TRITONSERVER_ServerUnloadModel(s, models[rand_r(&seed) % 4]));
    OK(TRITONSERVER_ServerSetExitTimeout(s, round % 3 == 2));
    if (round % 2) ignore(TRITONSERVER_ServerStop(s));
    if (round % 4 == 3) aside(ends_it, s); /* and by this thread */
    ignore(TRITONSERVER_ServerDelete(s));
  }
  atomic_store(&over, true);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
  for (int i = 0; atomic_load(&open_shots); i++) { /* what the servers' ends have left, libraries answer when they come to it */
    if (i > 60000) FAIL("%d requests have not ended", atomic_load(&open_shots));
    usleep(1000);
  }
  fprintf(stderr, "sent %d, refused %d, answered %d, failed %d\n", sent, refused, answered, failed);
  return 0;
}
