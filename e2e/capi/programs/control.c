/* Documents, control of models, repositories, metrics. usage: control REPOSITORY */
#include "check.h"

#include <sys/stat.h>

#include "neso.h"

static const char CONFIG[] =
    "{\"name\":\"made\",\"backend\":\"identity\",\"input\":[{\"name\":\"X\",\"data_type\":\"TYPE_INT8\",\"dims\":[4]}],"
    "\"output\":[{\"name\":\"Y\",\"data_type\":\"TYPE_INT8\",\"dims\":[4]}],\"max_batch_size\":4}";

static void documents(TRITONSERVER_Server* s) {
  TRITONSERVER_Message* m;
  uint32_t flags = 9;
  void* reserved = (void*)1;
  bool ready = false;
  OK(TRITONSERVER_ServerMetadata(s, &m));
  WANT(strstr(text(m), "\"name\":\"named\""));
  OK(TRITONSERVER_ServerModelMetadata(s, "identity", 1, &m));
  WANT(strstr(text(m), "\"FP32\""));
  OK(TRITONSERVER_ServerModelConfig(s, "identity", -1, 1, &m));
  WANT(strstr(text(m), "\"TYPE_FP32\""));
  OK(TRITONSERVER_ServerModelStatistics(s, "", -1, &m));
  WANT(strstr(text(m), "\"model_stats\""));
  OK(TRITONSERVER_ServerModelIndex(s, TRITONSERVER_INDEX_FLAG_READY, &m));
  const char* ready_ones = text(m);
  WANT(strstr(ready_ones, "\"identity\"") && !strstr(ready_ones, "repeat"));
  OK(TRITONSERVER_ServerModelIndex(s, 0, &m));
  WANT(strstr(text(m), "\"repeat\""));
  OK(TRITONSERVER_ServerModelBatchProperties(s, "identity", -1, &flags, &reserved));
  WANT(flags == TRITONSERVER_BATCH_UNKNOWN && !reserved);
  OK(TRITONSERVER_ServerModelTransactionProperties(s, "identity", -1, &flags, 0));
  WANT(flags == TRITONSERVER_TXN_ONE_TO_ONE);
  OK(TRITONSERVER_ServerModelIsReady(s, "identity", -1, &ready));
  WANT(ready);
  OK(TRITONSERVER_ServerModelIsReady(s, "repeat", -1, &ready));
  WANT(!ready);
}

static void control(TRITONSERVER_Server* s) {
  bool ready = false;
  uint32_t flags = 0;
  TRITONSERVER_Parameter* parts[2] = {TRITONSERVER_ParameterNew("config", TRITONSERVER_PARAMETER_STRING, CONFIG),
                                      TRITONSERVER_ParameterBytesNew("file:1/model.bin", "bytes", 5)};
  OK(TRITONSERVER_ServerLoadModelWithParameters(s, "made", (const TRITONSERVER_Parameter**)parts, 2));
  OK(TRITONSERVER_ServerModelIsReady(s, "made", 1, &ready));
  WANT(ready);
  OK(TRITONSERVER_ServerModelBatchProperties(s, "made", -1, &flags, 0));
  WANT(flags == TRITONSERVER_BATCH_FIRST_DIM);
  OK(TRITONSERVER_ServerUnloadModelAndDependents(s, "made"));
  OK(TRITONSERVER_ServerModelIsReady(s, "made", 1, &ready));
  WANT(!ready);
  TRITONSERVER_ParameterDelete(parts[0]);
  parts[0] = TRITONSERVER_ParameterNew("colour", TRITONSERVER_PARAMETER_STRING, "red");
  REFUSED(TRITONSERVER_ServerLoadModelWithParameters(s, "made", (const TRITONSERVER_Parameter**)parts, 1), TRITONSERVER_ERROR_INTERNAL,
      "failed to poll");
  TRITONSERVER_ParameterDelete(parts[0]);
  TRITONSERVER_ParameterDelete(parts[1]);
  REFUSED(TRITONSERVER_ServerLoadModel(s, "nobody"), TRITONSERVER_ERROR_INTERNAL, "nobody");
  OK(TRITONSERVER_ServerLoadModel(s, "repeat"));
  OK(TRITONSERVER_ServerUnloadModel(s, "repeat"));
}

static void repositories(TRITONSERVER_Server* s, const char* other) {
  bool ready = false;
  TRITONSERVER_Parameter* names[2] = {TRITONSERVER_ParameterNew("identity", TRITONSERVER_PARAMETER_STRING, "mirror"),
                                      TRITONSERVER_ParameterNew("repeat", TRITONSERVER_PARAMETER_STRING, "again")};
  REFUSED(TRITONSERVER_ServerRegisterModelRepository(s, "/nowhere", 0, 0), TRITONSERVER_ERROR_INVALID_ARG,
      "failed to register '/nowhere', repository not found");
  REFUSED(TRITONSERVER_ServerRegisterModelRepository(s, other, 0, 2), TRITONSERVER_ERROR_INVALID_ARG, "mapping count is non-zero");
  OK(TRITONSERVER_ServerRegisterModelRepository(s, other, (const TRITONSERVER_Parameter**)names, 2));
  REFUSED(TRITONSERVER_ServerRegisterModelRepository(s, other, 0, 0), TRITONSERVER_ERROR_ALREADY_EXISTS, "has already been registered");
  OK(TRITONSERVER_ServerLoadModel(s, "mirror"));
  OK(TRITONSERVER_ServerLoadModel(s, "again"));
  OK(TRITONSERVER_ServerModelIsReady(s, "mirror", -1, &ready));
  WANT(ready);
  OK(TRITONSERVER_ServerUnregisterModelRepository(s, other));
  REFUSED(TRITONSERVER_ServerUnregisterModelRepository(s, other), TRITONSERVER_ERROR_INVALID_ARG, "failed to unregister");
  TRITONSERVER_ParameterDelete(names[0]);
  TRITONSERVER_ParameterDelete(names[1]);
}

static const char* page(TRITONSERVER_Server* s) {
  static char copy[1 << 20];
  TRITONSERVER_Metrics* m;
  const char* base;
  size_t size;
  OK(TRITONSERVER_ServerMetrics(s, &m));
  REFUSED(TRITONSERVER_MetricsFormatted(m, 9, &base, &size), TRITONSERVER_ERROR_INVALID_ARG, "unknown metrics format '9'");
  OK(TRITONSERVER_MetricsFormatted(m, TRITONSERVER_METRIC_PROMETHEUS, &base, &size));
  WANT(size < sizeof copy);
  memcpy(copy, base, size);
  copy[size] = 0;
  OK(TRITONSERVER_MetricsDelete(m));
  return copy;
}

static void custom(TRITONSERVER_Server* s) {
  TRITONSERVER_MetricFamily *family, *spread;
  TRITONSERVER_Metric *metric, *same, *measured;
  TRITONSERVER_MetricArgs* args;
  TRITONSERVER_MetricKind kind;
  double value = 0, buckets[2] = {1, 10};
  const TRITONSERVER_Parameter* label = TRITONSERVER_ParameterNew("room", TRITONSERVER_PARAMETER_STRING, "kitchen");
  OK(TRITONSERVER_MetricFamilyNew(&family, TRITONSERVER_METRIC_KIND_COUNTER, "cups", "Cups that were washed."));
  REFUSED(TRITONSERVER_MetricFamilyNew(&spread, 9, "plates", ""), TRITONSERVER_ERROR_INVALID_ARG, "Unsupported kind");
  OK(TRITONSERVER_MetricNew(&metric, family, &label, 1));
  OK(TRITONSERVER_MetricNew(&same, family, &label, 1));
  OK(TRITONSERVER_MetricIncrement(metric, 2));
  OK(TRITONSERVER_MetricIncrement(same, 3));
  OK(TRITONSERVER_MetricValue(metric, &value));
  OK(TRITONSERVER_GetMetricKind(metric, &kind));
  WANT(value == 5 && kind == TRITONSERVER_METRIC_KIND_COUNTER);
  REFUSED(TRITONSERVER_MetricIncrement(metric, -1), TRITONSERVER_ERROR_INVALID_ARG, "monotonically");
  REFUSED(TRITONSERVER_MetricSet(metric, 1), TRITONSERVER_ERROR_UNSUPPORTED, "does not support Set");
  WANT(strstr(page(s), "cups{room=\"kitchen\"} 5"));
  REFUSED(TRITONSERVER_MetricFamilyDelete(family), TRITONSERVER_ERROR_INTERNAL, "Must call MetricDelete");
  OK(TRITONSERVER_MetricDelete(metric));
  REFUSED(TRITONSERVER_MetricDelete(metric), TRITONSERVER_ERROR_INVALID_ARG, "deleted");
  OK(TRITONSERVER_MetricDelete(same));
  OK(TRITONSERVER_MetricFamilyDelete(family));
  WANT(!strstr(page(s), "cups{"));

  OK(TRITONSERVER_MetricFamilyNew(&spread, TRITONSERVER_METRIC_KIND_HISTOGRAM, "plates", "Plates."));
  REFUSED(TRITONSERVER_MetricNew(&measured, spread, 0, 0), TRITONSERVER_ERROR_INVALID_ARG, "Bucket boundaries not found");
  OK(TRITONSERVER_MetricArgsNew(&args));
  OK(TRITONSERVER_MetricArgsSetHistogram(args, buckets, 2));
  OK(TRITONSERVER_MetricNewWithArgs(&measured, spread, 0, 0, args));
  OK(TRITONSERVER_MetricArgsDelete(args));
  OK(TRITONSERVER_MetricObserve(measured, 5));
  REFUSED(TRITONSERVER_MetricValue(measured, &value), TRITONSERVER_ERROR_UNSUPPORTED, "does not support Value");
  WANT(strstr(page(s), "plates_bucket{le=\"10\"} 1"));
  OK(TRITONSERVER_MetricDelete(measured));
  OK(TRITONSERVER_MetricFamilyDelete(spread));
  TRITONSERVER_ParameterDelete((TRITONSERVER_Parameter*)label);
}

/* which versions get which requests, which is ours alone */
static void rollout(TRITONSERVER_Server* s) {
  TRITONSERVER_Message* m;
  OK(NESO_ServerModelRollout(s, "identity", &m));
  WANT(!strcmp(text(m), "{\"model\":\"identity\",\"rules\":{},\"versions\":"
      "[{\"version\":\"1\",\"labels\":[],\"share\":0,\"requests\":{}}]}"));
  OK(NESO_ServerSetModelRollout(s, "identity", "labels: {stable: 1}\nweights: {stable: 1}"));
  OK(NESO_ServerModelRollout(s, "identity", &m));
  WANT(strstr(text(m), "\"labels\":[\"stable\"],\"share\":1"));
  OK(NESO_ServerSetModelRollout(s, "identity", "{\"labels\": null, \"weights\": null}"));
  REFUSED(NESO_ServerSetModelRollout(s, "identity", "labels: {canary: 2}"), TRITONSERVER_ERROR_INVALID_ARG, "version 2 is not loaded");
  REFUSED(NESO_ServerSetModelRollout(s, "identity", "["), TRITONSERVER_ERROR_INVALID_ARG, "the request: ");
  REFUSED(NESO_ServerModelRollout(s, "nobody", &m), TRITONSERVER_ERROR_NOT_FOUND, "'nobody' is not found");
}

/* in the mode in which a program says when the repository is looked at */
static void poll(const char* repository) {
  TRITONSERVER_ServerOptions* o;
  TRITONSERVER_Server* s;
  bool ready = false;
  char path[4096];
  OK(TRITONSERVER_ServerOptionsNew(&o));
  OK(TRITONSERVER_ServerOptionsSetModelRepositoryPath(o, repository));
  OK(TRITONSERVER_ServerNew(&s, o));
  OK(TRITONSERVER_ServerOptionsDelete(o));
  snprintf(path, sizeof path, "%s/polled", repository);
  WANT(!mkdir(path, 0755));
  snprintf(path, sizeof path, "%s/polled/1", repository);
  WANT(!mkdir(path, 0755));
  snprintf(path, sizeof path, "%s/polled/config.pbtxt", repository);
  FILE* f = fopen(path, "w");
  WANT(f);
  fputs("backend: \"identity\"\n"
        "input { name: \"X\" data_type: TYPE_FP32 dims: [ -1 ] }\n"
        "output { name: \"Y\" data_type: TYPE_FP32 dims: [ -1 ] }\n", f);
  WANT(!fclose(f));
  OK(TRITONSERVER_ServerModelIsReady(s, "polled", -1, &ready));
  WANT(!ready);
  OK(TRITONSERVER_ServerPollModelRepository(s));
  OK(TRITONSERVER_ServerModelIsReady(s, "polled", -1, &ready));
  WANT(ready);
  REFUSED(TRITONSERVER_ServerLoadModel(s, "identity"), TRITONSERVER_ERROR_UNAVAILABLE, "explicit model load / unload is not allowed");
  OK(TRITONSERVER_ServerDelete(s));
}

int main(int argc, char** argv) {
  WANT(argc == 2);
  char other[] = "/tmp/neso-capi-XXXXXX", command[8192];
  TRITONSERVER_ServerOptions* o = options(argv[1]);
  OK(TRITONSERVER_ServerOptionsSetServerId(o, "named"));
  TRITONSERVER_Server* s = serve(o, "identity");
  documents(s);
  control(s);
  rollout(s);
  WANT(mkdtemp(other));
  snprintf(command, sizeof command, "cp -r '%s'/identity '%s'/repeat '%s'", argv[1], argv[1], other);
  WANT(!system(command));
  repositories(s, other);
  custom(s);
  OK(TRITONSERVER_ServerDelete(s));
  poll(other);
  snprintf(command, sizeof command, "rm -r '%s'", other);
  return system(command);
}
