/* Many requests leave nothing behind: memory, descriptors, threads and the places of
 * handles are as many after the last as after the first tenth. Every hundredth request has
 * a trace, every thousandth asks for metrics, statistics and a document, is refused,
 * cancelled, or streamed. usage: soak REPOSITORY COUNT */
#include <dirent.h>

#include "check.h"

static int entries(const char* path) {
  int n = 0;
  DIR* d = opendir(path);
  while (readdir(d)) n++;
  closedir(d);
  return n;
}

static long resident_kib(void) {
  long size = 0, resident = 0;
  FILE* f = fopen("/proc/self/statm", "r");
  WANT(f && fscanf(f, "%ld %ld", &size, &resident) == 2);
  fclose(f);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static int traces;

static void on_activity(TRITONSERVER_InferenceTrace* t, TRITONSERVER_InferenceTraceActivity a, uint64_t ns, void* user) {
  (void)t; (void)a; (void)ns; (void)user;
}

static void on_tensor(TRITONSERVER_InferenceTrace* t, TRITONSERVER_InferenceTraceActivity a, const char* name, TRITONSERVER_DataType type,
                      const void* base, size_t size, const int64_t* shape, uint64_t dims, TRITONSERVER_MemoryType memory, int64_t id,
                      void* user) {
  (void)t; (void)a; (void)name; (void)type; (void)base; (void)size; (void)shape; (void)dims; (void)memory; (void)id; (void)user;
}

static void on_trace_release(TRITONSERVER_InferenceTrace* t, void* user) {
  (void)user;
  OK(TRITONSERVER_InferenceTraceDelete(t));
  traces--;
}

static void one(TRITONSERVER_Server* s, int traced) {
  static const float values[16];
  Call c = NEW_CALL;
  TRITONSERVER_InferenceTrace* t = 0;
  request(&c, s, "identity");
  OK(TRITONSERVER_InferenceRequestSetId(c.request, "soak"));
  OK(TRITONSERVER_InferenceRequestSetIntParameter(c.request, "n", 1));
  input(&c, "X", TRITONSERVER_TYPE_FP32, 16, values, sizeof values);
  if (traced) {
    OK(TRITONSERVER_InferenceTraceTensorNew(&t, TRITONSERVER_TRACE_LEVEL_TIMESTAMPS | TRITONSERVER_TRACE_LEVEL_TENSORS, 0, on_activity,
        on_tensor,
                                            on_trace_release, 0));
    traces++;
  }
  OK(TRITONSERVER_ServerInferAsync(s, c.request, t));
  await(&c, &c.finals, 1);
  output(&c, 0);
  end(&c);
  WANT(c.given == 1 && c.freed == 1);
}

/* all else that a program does */
static void others(TRITONSERVER_Server* s) {
  TRITONSERVER_Metrics* metrics;
  TRITONSERVER_Message* m;
  const char* base;
  size_t size;
  OK(TRITONSERVER_ServerMetrics(s, &metrics));
  OK(TRITONSERVER_MetricsFormatted(metrics, TRITONSERVER_METRIC_PROMETHEUS, &base, &size));
  OK(TRITONSERVER_MetricsDelete(metrics));
  OK(TRITONSERVER_ServerModelStatistics(s, "", -1, &m));
  text(m);
  OK(TRITONSERVER_ServerModelConfig(s, "identity", -1, 1, &m));
  text(m);
  Call c = NEW_CALL;
  request(&c, s, "repeat");
  REFUSED(TRITONSERVER_ServerInferAsync(s, c.request, 0), TRITONSERVER_ERROR_INVALID_ARG, "expected 3 inputs but got 0");
  slow_inputs(&c);
  OK(TRITONSERVER_ServerInferAsync(s, c.request, 0));
  await(&c, &c.responses, 1);
  OK(TRITONSERVER_InferenceRequestCancel(c.request));
  end(&c);
  WANT(c.given == c.freed);
}

/* the place of a handle in its table: its lowest 22 bits */
static unsigned place(TRITONSERVER_Server* s) {
  TRITONSERVER_InferenceRequest* r;
  OK(TRITONSERVER_InferenceRequestNew(&r, s, "identity", -1));
  unsigned at = (unsigned)((uintptr_t)r & ((1 << 22) - 1));
  OK(TRITONSERVER_InferenceRequestDelete(r));
  return at;
}

int main(int argc, char** argv) {
  WANT(argc == 3);
  int count = atoi(argv[2]), files = 0, threads = 0;
  long kib = 0;
  TRITONSERVER_ServerOptions* o = options(argv[1]);
  OK(TRITONSERVER_ServerOptionsSetStartupModel(o, "repeat"));
  TRITONSERVER_Server* s = serve(o, "identity");
  for (int i = 0; i < count; i++) {
    one(s, i % 100 == 0);
    if (i % 1000 == 0) others(s);
    if (i == count / 10) {
      kib = resident_kib();
      files = entries("/proc/self/fd");
      threads = entries("/proc/self/task");
    }
  }
  long grown = resident_kib() - kib;
  printf("%d requests: %ld KiB more on %ld, descriptors %d of %d, threads %d of %d, place %u, traces %d\n", count, grown, kib,
         entries("/proc/self/fd"), files, entries("/proc/self/task"), threads, place(s), traces);
  WANT(!traces && place(s) < 16);
  if (count >= 10000) WANT(grown < 4096 && entries("/proc/self/fd") <= files && entries("/proc/self/task") <= threads + 8);
  OK(TRITONSERVER_ServerDelete(s));
  OK(TRITONSERVER_ResponseAllocatorDelete(allocator()));
  return 0;
}
