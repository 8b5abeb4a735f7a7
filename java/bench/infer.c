/* Sends requests of so many bytes to the model `identity`, one after the other, and prints microseconds a
   request: by the clock, and of the processor. Usage: infer REPOSITORY BYTES SECONDS */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "triton/core/tritonserver.h"

#define OK(call) do { TRITONSERVER_Error* e = (call); \
    if (e) { fprintf(stderr, "%s\n", TRITONSERVER_ErrorMessage(e)); exit(1); } } while (0)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static TRITONSERVER_InferenceResponse* answer;
static int released;

static TRITONSERVER_Error* give(TRITONSERVER_ResponseAllocator* a, const char* name, size_t size, TRITONSERVER_MemoryType type, int64_t id,
                                void* user, void** buffer, void** buffer_user, TRITONSERVER_MemoryType* got, int64_t* got_id) {
  (void)a, (void)name, (void)type, (void)id, (void)user, (void)buffer_user;
  *buffer = malloc(size);
  *got = TRITONSERVER_MEMORY_CPU;
  *got_id = 0;
  return NULL;
}

static TRITONSERVER_Error* take_back(TRITONSERVER_ResponseAllocator* a, void* buffer, void* user, size_t size, TRITONSERVER_MemoryType type,
                                     int64_t id) {
  (void)a, (void)user, (void)size, (void)type, (void)id;
  free(buffer);
  return NULL;
}

static void on_release(TRITONSERVER_InferenceRequest* request, uint32_t flags, void* user) {
  (void)request, (void)flags, (void)user;
  pthread_mutex_lock(&lock);
  released = 1;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
}

static void on_response(TRITONSERVER_InferenceResponse* response, uint32_t flags, void* user) {
  (void)flags, (void)user;
  pthread_mutex_lock(&lock);
  answer = response;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
}

static double seconds(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char** argv) {
  TRITONSERVER_ServerOptions* options;
  TRITONSERVER_Server* server;
  TRITONSERVER_ResponseAllocator* allocator;
  TRITONSERVER_InferenceRequest* request;
  size_t bytes = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
  int64_t shape[1] = {(int64_t)(bytes / sizeof(float))};
  float* values = malloc(bytes);
  double begin = 0, cpu = 0, wait;
  long count = 0;
  if (!shape[0]) return fprintf(stderr, "usage: infer REPOSITORY BYTES SECONDS\n"), 2;
  memset(values, 1, bytes); /* pages that were never written to are all the same one, which is quicker to read */
  wait = strtod(argv[3], NULL);
  OK(TRITONSERVER_ServerOptionsNew(&options));
  OK(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, argv[1]));
  OK(TRITONSERVER_ServerOptionsSetLogInfo(options, 0));
  OK(TRITONSERVER_ServerNew(&server, options));
  OK(TRITONSERVER_ServerOptionsDelete(options));
  OK(TRITONSERVER_ResponseAllocatorNew(&allocator, give, take_back, NULL));
  OK(TRITONSERVER_InferenceRequestNew(&request, server, "identity", -1));
  OK(TRITONSERVER_InferenceRequestAddInput(request, "X", TRITONSERVER_TYPE_FP32, shape, 1));
  OK(TRITONSERVER_InferenceRequestAppendInputData(request, "X", values, bytes, TRITONSERVER_MEMORY_CPU, 0));
  OK(TRITONSERVER_InferenceRequestSetReleaseCallback(request, on_release, NULL));
  OK(TRITONSERVER_InferenceRequestSetResponseCallback(request, allocator, NULL, on_response, NULL));
  for (double start = seconds(CLOCK_MONOTONIC), now = start; now - start < wait; now = seconds(CLOCK_MONOTONIC)) {
    if (!begin && now - start > wait / 2) begin = now, cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), count = 0; /* warm now */
    answer = NULL;
    released = 0;
    OK(TRITONSERVER_ServerInferAsync(server, request, NULL));
    pthread_mutex_lock(&lock);
    while (!answer || !released) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    if (TRITONSERVER_InferenceResponseError(answer)) return 1;
    OK(TRITONSERVER_InferenceResponseDelete(answer));
    count++;
  }
  printf("%.2f %.2f\n", (seconds(CLOCK_MONOTONIC) - begin) / (double)count * 1e6,
         (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / (double)count * 1e6);
  OK(TRITONSERVER_InferenceRequestDelete(request));
  OK(TRITONSERVER_ResponseAllocatorDelete(allocator));
  OK(TRITONSERVER_ServerDelete(server));
  free(values);
  return 0;
}
