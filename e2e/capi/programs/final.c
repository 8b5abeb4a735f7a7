/* The final response of a request that is failed while a backend library in this process asks the program for memory:
 * it comes when the program's function has returned, and the program is called no more for that request than to give
 * back what it gave. usage: final REPOSITORY BACKENDS */
#include "check.h"

/* A call of the program's that takes until it is told to go on. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool inside, go_on;

static void takes_long(void) {
  pthread_mutex_lock(&lock);
  inside = true;
  pthread_cond_broadcast(&changed);
  while (!go_on) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
}

static Error slow_alloc(TRITONSERVER_ResponseAllocator* a, const char* name, size_t size, TRITONSERVER_MemoryType type, int64_t id,
                        void* user, void** buffer, void** buffer_user, TRITONSERVER_MemoryType* got, int64_t* got_id) {
  takes_long();
  return on_alloc(a, name, size, type, id, user, buffer, buffer_user, got, got_id);
}

static Error slow_start(TRITONSERVER_ResponseAllocator* a, void* user) {
  takes_long();
  return on_start(a, user);
}

int main(int argc, char** argv) {
  WANT(argc == 3);
  for (int which = 0; which < 2; which++) {
    TRITONSERVER_ServerOptions* o = options(argv[1]);
    OK(TRITONSERVER_ServerOptionsSetBackendDirectory(o, argv[2]));
    TRITONSERVER_Server* s = serve(o, "ident");
    TRITONSERVER_ResponseAllocator* a;
    OK(TRITONSERVER_ResponseAllocatorNew(&a, which ? on_alloc : slow_alloc, on_free, which ? slow_start : on_start));
    static const int32_t data[2] = {1, 2};
    int64_t shape[2] = {1, 2};
    Call* c = malloc(sizeof *c);
    *c = (Call)NEW_CALL;
    request(c, s, "ident");
    OK(TRITONSERVER_InferenceRequestSetResponseCallback(c->request, a, c, on_response, c));
    OK(TRITONSERVER_InferenceRequestAddInput(c->request, "IN0", TRITONSERVER_TYPE_INT32, shape, 2));
    OK(TRITONSERVER_InferenceRequestAppendInputData(c->request, "IN0", data, 4, TRITONSERVER_MEMORY_CPU, 0));
    OK(TRITONSERVER_InferenceRequestAppendInputData(c->request, "IN0", data + 1, 4, TRITONSERVER_MEMORY_CPU, 0));
    OK(TRITONSERVER_ServerInferAsync(s, c->request, 0));
    pthread_mutex_lock(&lock);
    while (!inside) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);

    /* what the library does is failed, which the program's function does not hold up */
    OK(TRITONSERVER_ServerSetExitTimeout(s, 0));
    REFUSED(TRITONSERVER_ServerStop(s), TRITONSERVER_ERROR_INTERNAL, "Exit timeout expired");
    WANT(c->finals == 0);
    pthread_mutex_lock(&lock);
    go_on = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    end(c);
    WANT(c->finals == 1 && c->given == c->freed);
    free(c);
    OK(TRITONSERVER_ResponseAllocatorDelete(a));
    OK(TRITONSERVER_ServerDelete(s));
    inside = go_on = false;
  }
  fprintf(stderr, "the end\n");
  return 0;
}
