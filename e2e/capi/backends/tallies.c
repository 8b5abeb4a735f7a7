/* Reports what it is told to: a request's parameter "do" is "memory model|instance T I BYTES ...", "nothing
 * model|instance", or "response [instance] [factory] [start N] [output N] [end N] [error CODE]" for each of its responses,
 * whose answer stands in the log of the probe. At its start it reports one byte for the model, one for each instance.
 * The model's parameter that begins with "SET:" is given to TRITONBACKEND_ModelSetConfig, with ' for ". */
#include "common.h"

static void tell(const char* what, TRITONSERVER_Error* e) {
  char path[4096];
  snprintf(path, sizeof path, "%s/libs.log", getenv("PROBE_HOME"));
  FILE* f = fopen(path, "a");
  if (f) {
    fprintf(f, "%s: %s%s%s\n", what, e ? TRITONSERVER_ErrorCodeString(e) : "ok", e ? " " : "", e ? TRITONSERVER_ErrorMessage(e) : "");
    fclose(f);
  }
  TRITONSERVER_ErrorDelete(e);
}

static void quiet(const char* what, TRITONSERVER_Error* e) {
  if (e) tell(what, e);
}

static TRITONSERVER_Error* memory(TRITONBACKEND_Model* model, TRITONBACKEND_ModelInstance* instance, const char* spec) {
  TRITONSERVER_BufferAttributes* usage[16];
  uint32_t n = 0;
  int type, id, used;
  unsigned long long bytes;
  while (n < 16 && sscanf(spec, " %d %d %llu%n", &type, &id, &bytes, &used) == 3) {
    TRY(TRITONSERVER_BufferAttributesNew(&usage[n]));
    TRY(TRITONSERVER_BufferAttributesSetMemoryType(usage[n], (TRITONSERVER_MemoryType)type));
    TRY(TRITONSERVER_BufferAttributesSetMemoryTypeId(usage[n], id));
    TRY(TRITONSERVER_BufferAttributesSetByteSize(usage[n], bytes));
    n++;
    spec += used;
  }
  TRITONSERVER_Error* e =
      model ? TRITONBACKEND_ModelReportMemoryUsage(model, usage, n) : TRITONBACKEND_ModelInstanceReportMemoryUsage(instance, usage, n);
  for (uint32_t i = 0; i < n; i++) TRITONSERVER_ErrorDelete(TRITONSERVER_BufferAttributesDelete(usage[i]));
  return e;
}

static void response(TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_ResponseFactory* factory, const char* spec) {
  TRITONBACKEND_ModelInstanceResponseStatistics* s;
  quiet("new", TRITONBACKEND_ModelInstanceResponseStatisticsNew(&s));
  TRITONSERVER_Error* failed = NULL;
  char word[16];
  int used;
  while (sscanf(spec, " %15s%n", word, &used) == 1) {
    spec += used;
    unsigned long long n = 0;
    if (sscanf(spec, " %llu%n", &n, &used) == 1) spec += used;
    if (!strcmp(word, "instance")) quiet(word, TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance(s, instance));
    if (!strcmp(word, "factory")) quiet(word, TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory(s, factory));
    if (!strcmp(word, "start")) quiet(word, TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart(s, n));
    if (!strcmp(word, "output")) quiet(word, TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart(s, n));
    if (!strcmp(word, "end")) quiet(word, TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd(s, n));
    if (!strcmp(word, "error")) {
      failed = TRITONSERVER_ErrorNew((TRITONSERVER_Error_Code)n, "it failed");
      quiet(word, TRITONBACKEND_ModelInstanceResponseStatisticsSetError(s, failed));
    }
    if (!strcmp(word, "report")) tell(word, TRITONBACKEND_ModelInstanceReportResponseStatistics(s));
  }
  TRITONSERVER_ErrorDelete(failed);
  quiet("delete", TRITONBACKEND_ModelInstanceResponseStatisticsDelete(s));
}

TRITONSERVER_Error* TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model) {
  TRITONSERVER_Message* config;
  const char *base, *from;
  size_t size;
  bool wanted = false;
  quiet("memory of the model", memory(model, NULL, "0 0 1"));
  TRY(TRITONBACKEND_ModelAutoCompleteConfig(model, &wanted));
  TRY(TRITONBACKEND_ModelConfig(model, 1, &config));
  TRY(TRITONSERVER_MessageSerializeToJson(config, &base, &size));
  char set[1000] = "", *to = set;
  if ((from = strstr(base, "SET:"))) {
    for (from += 4; *from && *from != '"' && to < set + sizeof set - 1; from++) *to++ = *from == '\'' ? '"' : *from;
    *to = 0;
  }
  TRITONSERVER_ErrorDelete(TRITONSERVER_MessageDelete(config));
  if (!set[0]) return NULL;
  tell(wanted ? "completion is wanted" : "completion is not wanted", NULL);
  TRITONSERVER_Message* message;
  TRY(TRITONSERVER_MessageNewFromSerializedJson(&message, set, strlen(set)));
  tell("set", TRITONBACKEND_ModelSetConfig(model, 1, message));
  TRITONSERVER_ErrorDelete(TRITONSERVER_MessageDelete(message));
  return NULL;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* instance) {
  quiet("memory of the instance", memory(NULL, instance, "0 0 1"));
  return NULL;
}

static TRITONSERVER_Error* one(TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request* request) {
  char what[400];
  TRITONBACKEND_Model* model;
  TRITONBACKEND_Input* input;
  TRITONBACKEND_Response* sent;
  TRITONBACKEND_ResponseFactory* factory;
  TRY(TRITONBACKEND_ModelInstanceModel(instance, &model));
  TRY(parameter(request, "do", what, sizeof what));
  if (!strncmp(what, "memory model", 12)) tell(what, memory(model, NULL, what + 12));
  if (!strncmp(what, "memory instance", 15)) tell(what, memory(NULL, instance, what + 15));
  TRY(TRITONBACKEND_ResponseFactoryNew(&factory, request));
  TRY(TRITONBACKEND_ResponseNewFromFactory(&sent, factory));
  TRY(TRITONBACKEND_RequestInput(request, "IN0", &input));
  TRITONSERVER_Error* e = copy_to(sent, input, "OUT0");
  TRITONSERVER_ErrorDelete(TRITONBACKEND_ResponseSend(sent, 0, e));
  char* rest = what;
  for (char* part; !strncmp(what, "response", 8) && (part = strsep(&rest, ";"));) {
    response(instance, factory, strncmp(part, "response", 8) ? part : part + 8);
  }
  TRY(TRITONBACKEND_ResponseFactorySendFlags(factory, TRITONSERVER_RESPONSE_COMPLETE_FINAL));
  return TRITONBACKEND_ResponseFactoryDelete(factory);
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    TRITONSERVER_Error* e = one(instance, requests[i]);
    if (e) tell("one", e);
    TRY(TRITONBACKEND_RequestRelease(requests[i], TRITONSERVER_REQUEST_RELEASE_ALL));
  }
  return NULL;
}
