/* Says what it wants of the server and answers with what it got, as parameters of its response. A request's parameter
 * "do" says what: "output T I" wants memory of type T and id I for its output, "prefers T I" asks what memory is
 * preferred, "pieces" looks at the buffers of its input, "many N" answers N times, "both" gives an output that nobody
 * asked for, "flags" tells the flags. */
#include "common.h"

#define NEVER ((TRITONSERVER_MemoryType)77)

static TRITONSERVER_Error* note(TRITONBACKEND_Response* p, const char* name, TRITONSERVER_Error* e, const char* format, ...) {
  static const char* const codes[] = {"UNKNOWN", "INTERNAL", "NOT_FOUND", "INVALID_ARG", "UNAVAILABLE", "UNSUPPORTED", "ALREADY_EXISTS",
                                      "CANCELLED"};
  char text[600];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (e) snprintf(text, sizeof text, "%s %s", codes[TRITONSERVER_ErrorCode(e)], TRITONSERVER_ErrorMessage(e));
  TRITONSERVER_ErrorDelete(e);
  return TRITONBACKEND_ResponseSetStringParameter(p, name, text);
}

/* An output of two numbers, 1 and 2, in memory that is wanted so. */
static TRITONSERVER_Error* put(TRITONBACKEND_Response* p, const char* name, TRITONSERVER_MemoryType type, int64_t id, bool tell) {
  TRITONBACKEND_Output* out;
  TRITONSERVER_BufferAttributes* where;
  int64_t two[2] = {1, 2};
  void* to = NULL;
  TRY(TRITONBACKEND_ResponseOutput(p, &out, name, TRITONSERVER_TYPE_INT32, two, 2));
  TRITONSERVER_Error* e = TRITONBACKEND_OutputBuffer(out, &to, 8, &type, &id);
  if (!e && to) memcpy(to, "\1\0\0\0\2\0\0\0", 8);
  if (!tell) return e;
  bool failed = e != NULL;
  TRY(note(p, "buffer", e, "%s type=%d id=%d", to ? "there" : "null", type, (int)id));
  size_t size = 99;
  type = NEVER, id = 99;
  e = TRITONBACKEND_OutputBufferAttributes(out, &where);
  if (!e) e = TRITONSERVER_BufferAttributesByteSize(where, &size);
  if (!e) e = TRITONSERVER_BufferAttributesMemoryType(where, &type);
  if (!e) e = TRITONSERVER_BufferAttributesMemoryTypeId(where, &id);
  TRY(note(p, "attributes", e, "size=%d type=%d id=%d", (int)size, type, (int)id));
  return failed ? ERR("there is no memory") : NULL;
}

static TRITONSERVER_Error* prefers(TRITONBACKEND_Response* p, TRITONBACKEND_Request* r, TRITONSERVER_MemoryType type, int64_t id) {
  TRITONSERVER_MemoryType was = type;
  int64_t of = id;
  size_t size = 8;
  TRITONSERVER_Error* e = TRITONBACKEND_RequestOutputBufferProperties(r, "OUT0", &size, &type, &id);
  TRY(note(p, "prefers", e, "size=%d type=%d id=%d", (int)size, type, (int)id));
  type = was, id = of;
  e = TRITONBACKEND_RequestOutputBufferProperties(r, "OUT0", NULL, &type, &id);
  TRY(note(p, "without a size", e, "type=%d id=%d", type, (int)id));
  type = was, id = of;
  e = TRITONBACKEND_RequestOutputBufferProperties(r, "NONE", &size, &type, &id);
  return note(p, "of no output", e, "size=%d type=%d id=%d", (int)size, type, (int)id);
}

static TRITONSERVER_Error* pieces(TRITONBACKEND_Response* p, TRITONBACKEND_Request* r) {
  TRITONBACKEND_Input* in;
  TRITONSERVER_BufferAttributes* where;
  uint32_t count, dims;
  uint64_t size;
  const int64_t* shape;
  const void* data;
  char name[40];
  TRY(TRITONBACKEND_RequestInput(r, "IN0", &in));
  TRY(TRITONBACKEND_InputProperties(in, NULL, NULL, &shape, &dims, &size, &count));
  TRY(note(p, "input", NULL, "size=%d buffers=%u", (int)size, count));
  TRY(TRITONBACKEND_InputPropertiesForHostPolicy(in, "cpu", NULL, NULL, &shape, &dims, &size, &count));
  TRY(note(p, "for a policy", NULL, "size=%d buffers=%u", (int)size, count));
  for (uint32_t k = 0; k <= count; k++) {
    TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_GPU;
    int64_t id = 5;
    snprintf(name, sizeof name, "piece %u", k);
    TRITONSERVER_Error* e = TRITONBACKEND_InputBuffer(in, k, &data, &size, &type, &id);
    int first = data ? *(const char*)data : -1;
    TRY(note(p, name, e, "%s size=%d first=%d type=%d id=%d", data ? "there" : "null", (int)size, first, type, (int)id));
    snprintf(name, sizeof name, "attributes %u", k);
    size_t bytes = 99;
    where = NULL;
    e = TRITONBACKEND_InputBufferAttributes(in, k, &data, &where);
    if (!e && where) e = TRITONSERVER_BufferAttributesByteSize(where, &bytes);
    TRY(note(p, name, e, "%s size=%d", data ? "there" : "null", (int)bytes));
  }
  return NULL;
}

static TRITONSERVER_Error* send(TRITONBACKEND_Response* p, bool final, TRITONSERVER_Error* failed) {
  TRITONSERVER_Error* e = TRITONBACKEND_ResponseSend(p, final ? TRITONSERVER_RESPONSE_COMPLETE_FINAL : 0, failed);
  TRITONSERVER_ErrorDelete(failed);
  if (e) SAY("send: %s", TRITONSERVER_ErrorMessage(e));
  TRITONSERVER_ErrorDelete(e);
  return NULL;
}

static TRITONSERVER_Error* one(TRITONBACKEND_Request* r) {
  TRITONBACKEND_Response* p;
  TRITONSERVER_Error* e = NULL;
  char what[80];
  int n = 1, type = 0, id = 0;
  uint32_t flags = 0, wanted = 0;
  TRY(parameter(r, "do", what, sizeof what));
  if (sscanf(what, "many %d", &n) == 1) {
    for (int i = 1; i < n; i++) {
      TRY(TRITONBACKEND_ResponseNew(&p, r));
      send(p, false, put(p, "OUT0", TRITONSERVER_MEMORY_CPU, 0, false));
    }
  }
  TRY(TRITONBACKEND_ResponseNew(&p, r));
  if (sscanf(what, "output %d %d", &type, &id) == 2) return send(p, true, put(p, "OUT0", type, id, true));
  if (sscanf(what, "prefers %d %d", &type, &id) == 2) e = prefers(p, r, type, id);
  if (!strcmp(what, "pieces")) e = pieces(p, r);
  if (!strcmp(what, "flags")) {
    TRITONSERVER_ErrorDelete(TRITONBACKEND_RequestFlags(r, &flags));
    e = note(p, "flags", NULL, "%u", flags);
  }
  if (!strcmp(what, "both")) {
    TRITONSERVER_ErrorDelete(TRITONBACKEND_RequestOutputCount(r, &wanted));
    e = note(p, "wanted", NULL, "%u", wanted);
    if (!e) e = put(p, "OUT1", TRITONSERVER_MEMORY_CPU, 0, false);
  }
  if (!e) e = put(p, "OUT0", TRITONSERVER_MEMORY_CPU, 0, false);
  return send(p, true, e);
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  (void)instance;
  for (uint32_t i = 0; i < count; i++) {
    TRITONSERVER_Error* e = one(requests[i]);
    if (e) SAY("%s", TRITONSERVER_ErrorMessage(e));
    TRITONSERVER_ErrorDelete(e);
    TRITONSERVER_ErrorDelete(TRITONBACKEND_RequestRelease(requests[i], TRITONSERVER_REQUEST_RELEASE_ALL));
  }
  return NULL;
}
