/* Copies IN0 to OUT0, and does before what the request's parameter "do" says. What it hears it writes to PROBE_HOME/libs.log. */
#include "common.h"

static void tell(const char* format, ...) {
  char path[4096];
  snprintf(path, sizeof path, "%s/libs.log", getenv("PROBE_HOME"));
  FILE* f = fopen(path, "a");
  if (!f) return;
  va_list args;
  va_start(args, format);
  vfprintf(f, format, args);
  va_end(args);
  fputc('\n', f);
  fclose(f);
}

static void answer(const char* what, TRITONSERVER_Error* e) {
  tell("%s: %s%s%s", what, e ? TRITONSERVER_ErrorCodeString(e) : "ok", e ? " " : "", e ? TRITONSERVER_ErrorMessage(e) : "");
  TRITONSERVER_ErrorDelete(e);
}

static void parameters(TRITONBACKEND_Response* r) {
  answer("string", TRITONBACKEND_ResponseSetStringParameter(r, "s", "text"));
  answer("empty string", TRITONBACKEND_ResponseSetStringParameter(r, "e", ""));
  answer("int", TRITONBACKEND_ResponseSetIntParameter(r, "i", -9223372036854775807LL - 1));
  answer("bool", TRITONBACKEND_ResponseSetBoolParameter(r, "b", true));
  answer("double", TRITONBACKEND_ResponseSetDoubleParameter(r, "d", 1e300));
  answer("the same name again", TRITONBACKEND_ResponseSetStringParameter(r, "s", "other"));
  answer("the same name, another type", TRITONBACKEND_ResponseSetIntParameter(r, "s", 7));
  answer("no name", TRITONBACKEND_ResponseSetBoolParameter(r, "", false));
  answer("a name of the server's", TRITONBACKEND_ResponseSetBoolParameter(r, "triton_final_response", false));
}

static void log_lines(void) {
  for (int level = 0; level < 4; level++) {
    tell("enabled %d: %d", level, TRITONSERVER_LogIsEnabled((TRITONSERVER_LogLevel)level));
    answer("log", TRITONSERVER_LogMessage((TRITONSERVER_LogLevel)level, "a/folder/says.c", 12 + level, "one\n\"two\"\t\\ three"));
  }
  answer("log of no level", TRITONSERVER_LogMessage((TRITONSERVER_LogLevel)4, "says.c", 1, "x"));
}

static void traced(TRITONBACKEND_Request* request) {
  TRITONSERVER_InferenceTrace *trace = (void*)1, *child = NULL;
  answer("trace", TRITONBACKEND_RequestTrace(request, &trace));
  tell("there is a trace: %s", trace ? "yes" : "no");
  if (!trace) return;
  const char *text = "?";
  int64_t version = 0;
  uint64_t id = 0, parent = 0, of = 0;
  answer("model", TRITONSERVER_InferenceTraceModelName(trace, &text));
  tell("model %s", text);
  answer("version", TRITONSERVER_InferenceTraceModelVersion(trace, &version));
  tell("version %lld", (long long)version);
  answer("request", TRITONSERVER_InferenceTraceRequestId(trace, &text));
  tell("request %s", text);
  answer("context", TRITONSERVER_InferenceTraceContext(trace, &text));
  tell("context '%s'", text ? text : "(null)");
  answer("report", TRITONSERVER_InferenceTraceReportActivity(trace, now_ns(), "from the backend"));
  answer("id", TRITONSERVER_InferenceTraceId(trace, &id));
  answer("spawn", TRITONSERVER_InferenceTraceSpawnChildTrace(trace, &child));
  answer("parent", TRITONSERVER_InferenceTraceParentId(child, &parent));
  answer("id of the child", TRITONSERVER_InferenceTraceId(child, &of));
  tell("the child is below the trace: %s, and another: %s", parent == id ? "yes" : "no", of != id ? "yes" : "no");
  answer("report of the child", TRITONSERVER_InferenceTraceReportActivity(child, now_ns(), "from the child"));
  answer("child deleted", TRITONSERVER_InferenceTraceDelete(child));
}

static TRITONSERVER_Error* one(TRITONBACKEND_Request* request) {
  char what[64];
  TRY(parameter(request, "do", what, sizeof what));
  if (strstr(what, "trace")) traced(request);
  if (strstr(what, "log")) log_lines();
  if (strstr(what, "none")) {
    TRITONBACKEND_ResponseFactory* factory;
    TRY(TRITONBACKEND_ResponseFactoryNew(&factory, request));
    TRY(TRITONBACKEND_ResponseFactorySendFlags(factory, TRITONSERVER_RESPONSE_COMPLETE_FINAL));
    return TRITONBACKEND_ResponseFactoryDelete(factory);
  }
  TRITONBACKEND_Response* response;
  TRY(TRITONBACKEND_ResponseNew(&response, request));
  if (strstr(what, "parameters")) parameters(response);
  TRITONBACKEND_Input* input;
  TRY(TRITONBACKEND_RequestInput(request, "IN0", &input));
  TRITONSERVER_Error* e = strstr(what, "bare") ? NULL : copy_to(response, input, "OUT0");
  if (!e && strstr(what, "error")) e = TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "as it was told to");
  if (!e && strstr(what, "unknown")) e = TRITONSERVER_ErrorNew((TRITONSERVER_Error_Code)77, "an unknown code");
  if (!e && strstr(what, "wordless")) e = TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "");
  TRITONSERVER_Error* sent = TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, e);
  TRITONSERVER_ErrorDelete(e);
  return sent;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  (void)instance;
  for (uint32_t i = 0; i < count; i++) {
    uint64_t begin = now_ns();
    TRITONSERVER_Error* e = one(requests[i]);
    uint64_t end = now_ns();
    if (e) answer("one", e);
    TRY(TRITONBACKEND_ModelInstanceReportStatistics(instance, requests[i], true, begin, begin, end, end));
    TRY(TRITONBACKEND_RequestRelease(requests[i], TRITONSERVER_REQUEST_RELEASE_ALL));
    TRY(TRITONBACKEND_ModelInstanceReportBatchStatistics(instance, 1, begin, begin, end, end));
  }
  return NULL;
}
