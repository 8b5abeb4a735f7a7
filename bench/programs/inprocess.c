/* The server in this process, one thread, one request after the other: each is made, sent,
 * waited for, read and deleted. For each number of seconds on stdin it prints one line of
 * JSON. usage: inprocess REPOSITORY BACKENDS MODEL ELEMENTS INPUT... */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "triton/core/tritonserver.h"

#define OK(call)                                                                   \
  do {                                                                             \
    TRITONSERVER_Error* e_ = (call);                                               \
    if (e_) {                                                                      \
      fprintf(stderr, "%s: %s\n", #call, TRITONSERVER_ErrorMessage(e_));           \
      exit(1);                                                                     \
    }                                                                              \
  } while (0)

enum { MOST = 1 << 22 };
static float* took; /* us of each request */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static TRITONSERVER_InferenceResponse* answer;
static int released;
static char memory[4][8 << 20]; /* for outputs: what is measured is the server and not malloc */
static int used;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static TRITONSERVER_Error* give(TRITONSERVER_ResponseAllocator* a, const char* name, size_t size, TRITONSERVER_MemoryType type, int64_t id,
                                void* user, void** buffer, void** buffer_user, TRITONSERVER_MemoryType* got, int64_t* got_id) {
  (void)a; (void)name; (void)type; (void)id; (void)user; (void)buffer_user;
  if (size > sizeof memory[0]) return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "too large");
  *buffer = memory[used++ % 4];
  *got = TRITONSERVER_MEMORY_CPU;
  *got_id = 0;
  return NULL;
}

static TRITONSERVER_Error* take_back(TRITONSERVER_ResponseAllocator* a, void* buffer, void* user, size_t size,
                                     TRITONSERVER_MemoryType type, int64_t id) {
  (void)a; (void)buffer; (void)user; (void)size; (void)type; (void)id;
  return NULL;
}

static void on_release(TRITONSERVER_InferenceRequest* r, const uint32_t flags, void* user) {
  (void)r; (void)flags; (void)user;
  pthread_mutex_lock(&lock);
  released = 1;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
}

static void on_response(TRITONSERVER_InferenceResponse* r, const uint32_t flags, void* user) {
  (void)flags; (void)user;
  pthread_mutex_lock(&lock);
  if (r) answer = r;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
}

static int compare(const void* a, const void* b) {
  float x = *(const float*)a, y = *(const float*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  int elements = atoi(argv[4]), names = argc - 5;
  TRITONSERVER_ServerOptions* o;
  TRITONSERVER_Server* s;
  OK(TRITONSERVER_ServerOptionsNew(&o));
  OK(TRITONSERVER_ServerOptionsSetModelRepositoryPath(o, argv[1]));
  OK(TRITONSERVER_ServerOptionsSetBackendDirectory(o, argv[2]));
  OK(TRITONSERVER_ServerOptionsSetModelControlMode(o, TRITONSERVER_MODEL_CONTROL_EXPLICIT));
  OK(TRITONSERVER_ServerOptionsSetStartupModel(o, argv[3]));
  OK(TRITONSERVER_ServerOptionsSetModelLoadRetryCount(o, 0));
  OK(TRITONSERVER_ServerOptionsSetStrictModelConfig(o, false));
  OK(TRITONSERVER_ServerOptionsSetGpuMetrics(o, false));
  OK(TRITONSERVER_ServerOptionsSetLogInfo(o, false));
  OK(TRITONSERVER_ServerNew(&s, o));
  OK(TRITONSERVER_ServerOptionsDelete(o));
  TRITONSERVER_ResponseAllocator* allocator;
  OK(TRITONSERVER_ResponseAllocatorNew(&allocator, give, take_back, NULL));
  float* values = calloc((size_t)elements, sizeof *values);
  took = calloc(MOST, sizeof *took);
  for (int i = 0; i < elements; i++) values[i] = (float)i;
  int64_t shape[2] = {1, elements};
  int batched = names > 1;
  double seconds;
  while (scanf("%lf", &seconds) == 1) {
    long n = 0;
    double begin = now(), end = begin;
    for (; end < begin + seconds && n < MOST; n++) {
      TRITONSERVER_InferenceRequest* r;
      double from = end;
      OK(TRITONSERVER_InferenceRequestNew(&r, s, argv[3], -1));
      for (int i = 0; i < names; i++) {
        OK(TRITONSERVER_InferenceRequestAddInput(r, argv[5 + i], TRITONSERVER_TYPE_FP32, shape + !batched, 1 + (uint64_t)batched));
        OK(TRITONSERVER_InferenceRequestAppendInputData(r, argv[5 + i], values, (size_t)elements * sizeof *values,
             TRITONSERVER_MEMORY_CPU, 0));
      }
      OK(TRITONSERVER_InferenceRequestSetReleaseCallback(r, on_release, NULL));
      OK(TRITONSERVER_InferenceRequestSetResponseCallback(r, allocator, NULL, on_response, NULL));
      OK(TRITONSERVER_ServerInferAsync(s, r, NULL));
      pthread_mutex_lock(&lock);
      while (!answer || !released) pthread_cond_wait(&changed, &lock);
      TRITONSERVER_InferenceResponse* got = answer;
      answer = NULL;
      released = 0;
      pthread_mutex_unlock(&lock);
      const char* name;
      TRITONSERVER_DataType datatype;
      TRITONSERVER_MemoryType type;
      const int64_t* dims;
      uint64_t rank;
      const void* base;
      size_t size;
      int64_t id;
      void* user;
      OK(TRITONSERVER_InferenceResponseError(got));
      OK(TRITONSERVER_InferenceResponseOutput(got, 0, &name, &datatype, &dims, &rank, &base, &size, &type, &id, &user));
      if (size != (size_t)elements * sizeof *values || ((const float*)base)[elements - 1] != values[elements - 1] * (float)names) return 3;
      OK(TRITONSERVER_InferenceResponseDelete(got));
      OK(TRITONSERVER_InferenceRequestDelete(r));
      end = now();
      took[n] = (float)((end - from) * 1e6);
    }
    qsort(took, (size_t)n, sizeof *took, compare);
    printf("{\"requests\": %ld, \"seconds\": %.6f, \"p50\": %.3f, \"p99\": %.3f, \"most\": %.3f}\n", n, end - begin, (double)took[n / 2],
           (double)took[n * 99 / 100], (double)took[n - 1]);
    fflush(stdout);
  }
  OK(TRITONSERVER_ServerDelete(s));
  return 0;
}
