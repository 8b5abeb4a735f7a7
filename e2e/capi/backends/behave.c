/* Does what the parameter "do" of a request says, well or badly. The model's parameter "complete" has it say its inputs
 * and outputs. */
#include <pthread.h>

#include "common.h"

static TRITONSERVER_Error* contains(TRITONBACKEND_Model* model, const char* what, bool* found) {
  TRITONSERVER_Message* config;
  TRY(TRITONBACKEND_ModelConfig(model, 1, &config));
  const char* base;
  size_t size;
  TRY(TRITONSERVER_MessageSerializeToJson(config, &base, &size));
  *found = strstr(base, what) != NULL;
  return TRITONSERVER_MessageDelete(config);
}

TRITONSERVER_Error* TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model) {
  static const char config[] =
      "{\"max_batch_size\":4,\"input\":[{\"name\":\"IN0\",\"data_type\":\"TYPE_INT32\",\"dims\":[-1]}],"
      "\"output\":[{\"name\":\"OUT0\",\"data_type\":\"TYPE_INT32\",\"dims\":[-1]}]}";
  bool complete, refuses, may;
  TRY(contains(model, "\"complete_it\"", &complete));
  TRY(contains(model, "\"refuse_it\"", &refuses));
  if (refuses) return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "this model refuses to load");
  TRY(TRITONBACKEND_ModelAutoCompleteConfig(model, &may));
  if (!complete || !may) return NULL;
  TRITONSERVER_Message* message;
  TRY(TRITONSERVER_MessageNewFromSerializedJson(&message, config, sizeof config - 1));
  TRY(TRITONBACKEND_ModelSetConfig(model, 1, message));
  return TRITONSERVER_MessageDelete(message);
}

static TRITONSERVER_Error* echo(TRITONBACKEND_Request* request, TRITONBACKEND_Response* response) {
  TRITONBACKEND_Input* input;
  TRY(TRITONBACKEND_RequestInput(request, "IN0", &input));
  return copy_to(response, input, "OUT0");
}

static TRITONSERVER_Error* answer(TRITONBACKEND_Request* request) {
  TRITONBACKEND_Response* response;
  TRY(TRITONBACKEND_ResponseNew(&response, request));
  TRY(echo(request, response));
  return TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, NULL);
}

static TRITONSERVER_Error* release(TRITONBACKEND_Request* request) {
  return TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL);
}

/* What a thread of ours reads, over and over, while requests are answered and released. */
static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t read_once = PTHREAD_COND_INITIALIZER;
static TRITONBACKEND_Request* seen;
static struct {
  TRITONBACKEND_Request* request;
  TRITONBACKEND_Input* input;
  const char* id;
  uint64_t size;
} shown;
static bool started;

static void* reads(void* unused) {
  (void)unused;
  for (;;) {
    pthread_mutex_lock(&reading);
    __typeof__(shown) now = shown;
    pthread_mutex_unlock(&reading);
    if (!now.request) {
      fprintf(stderr, "reads: done\n");
      return NULL;
    }
    for (int i = 0; i < 100; i++) {
      uint64_t size;
      const char* id;
      TRITONSERVER_Error* failed = TRITONBACKEND_InputProperties(now.input, NULL, NULL, NULL, NULL, &size, NULL);
      if (!failed && size != now.size) fprintf(stderr, "reads: a size of another request\n");
      if (!failed) failed = TRITONBACKEND_RequestId(now.request, &id);
      if (!failed && id != now.id) fprintf(stderr, "reads: the id of another request\n");
      if (failed) TRITONSERVER_ErrorDelete(failed);
      if (i) continue;
      pthread_mutex_lock(&reading);
      seen = now.request; /* it is released, or will be, while it is read on */
      pthread_cond_signal(&read_once);
      pthread_mutex_unlock(&reading);
    }
  }
}

/* Shows a request to that thread, answers it and releases it; one of a single number ends the thread. */
static TRITONSERVER_Error* shows(TRITONBACKEND_Request* request) {
  __typeof__(shown) now = {.request = request};
  TRY(TRITONBACKEND_RequestInput(request, "IN0", &now.input));
  TRY(TRITONBACKEND_InputProperties(now.input, NULL, NULL, NULL, NULL, &now.size, NULL));
  TRY(TRITONBACKEND_RequestId(request, &now.id));
  if (now.size == 4) now.request = NULL;
  pthread_mutex_lock(&reading);
  shown = now;
  pthread_mutex_unlock(&reading);
  if (!started) {
    pthread_t thread;
    pthread_create(&thread, NULL, reads, NULL);
    pthread_detach(thread);
    started = true;
  }
  pthread_mutex_lock(&reading);
  while (now.request && seen != now.request) pthread_cond_wait(&read_once, &reading);
  pthread_mutex_unlock(&reading);
  TRY(answer(request));
  return release(request);
}

/* An output with bytes written behind it. */
static TRITONSERVER_Error* overrun(TRITONBACKEND_Request* request, int64_t bytes, int64_t extra) {
  TRITONBACKEND_Response* response;
  TRITONBACKEND_Output* output;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  int64_t id = 0, shape[2] = {1, bytes / 4};
  char* to;
  TRY(TRITONBACKEND_ResponseNew(&response, request));
  TRY(TRITONBACKEND_ResponseOutput(response, &output, "OUT0", TRITONSERVER_TYPE_INT32, shape, 2));
  TRY(TRITONBACKEND_OutputBuffer(output, (void**)&to, bytes, &type, &id));
  memset(to, 7, bytes + extra);
  return TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, NULL);
}

static void* later(void* p) {
  TRITONBACKEND_ResponseFactory* factory = p;
  TRITONBACKEND_Response* response;
  TRITONBACKEND_Output* output;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  int64_t id = 0, shape[2] = {1, 1};
  int32_t* to;
  TRITONSERVER_Error* e = TRITONBACKEND_ResponseNewFromFactory(&response, factory);
  if (!e) e = TRITONBACKEND_ResponseOutput(response, &output, "OUT0", TRITONSERVER_TYPE_INT32, shape, 2);
  if (!e) e = TRITONBACKEND_OutputBuffer(output, (void**)&to, 4, &type, &id);
  if (!e) *to = 99;
  if (!e) e = TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, NULL);
  if (!e) e = TRITONBACKEND_ResponseFactoryDelete(factory);
  if (e) SAY("later: %s", TRITONSERVER_ErrorMessage(e));
  return NULL;
}

/* Text of an error that is expected, back to the client as another one. */
static TRITONSERVER_Error* told(const char* what, TRITONSERVER_Error* e) {
  if (e) {
    SAY("%s: %s", what, TRITONSERVER_ErrorMessage(e));
    TRITONSERVER_ErrorDelete(e);
  } else {
    SAY("%s: no error", what);
  }
  return NULL;
}

/* Reads the request and the input of the call before this one: their places in the tables are those of this call's now. */
static TRITONSERVER_Error* stale(TRITONBACKEND_Request* request) {
  static TRITONBACKEND_Request* before;
  static TRITONBACKEND_Input* input;
  union {
    uint32_t n;
    uint64_t size;
    const void* p;
  } got[2];
  TRITONSERVER_MemoryType type;
  int64_t device;
  if (before) {
    told("stale count", TRITONBACKEND_RequestInputCount(before, &got[0].n));
    told("stale id", TRITONBACKEND_RequestId(before, (const char**)&got[0].p));
    told("stale correlation id", TRITONBACKEND_RequestCorrelationId(before, &got[0].size));
    told("stale trace", TRITONBACKEND_RequestTrace(before, (TRITONSERVER_InferenceTrace**)&got[0].p));
    told("stale input", TRITONBACKEND_RequestInput(before, "IN0", (TRITONBACKEND_Input**)&got[0].p));
    told("stale input by index", TRITONBACKEND_RequestInputByIndex(before, 0, (TRITONBACKEND_Input**)&got[0].p));
    told("stale output", TRITONBACKEND_RequestOutputName(before, 0, (const char**)&got[0].p));
    told("stale properties", TRITONBACKEND_InputProperties(input, NULL, NULL, NULL, NULL, &got[0].size, NULL));
    told("stale buffer", TRITONBACKEND_InputBuffer(input, 0, &got[0].p, &got[1].size, &type, &device));
    told("another kind", TRITONBACKEND_RequestFlags((TRITONBACKEND_Request*)input, &got[0].n));
  }
  before = request;
  TRY(TRITONBACKEND_RequestInput(request, "IN0", &input));
  TRY(answer(request));
  TRY(release(request));
  told("released input", TRITONBACKEND_InputProperties(input, NULL, NULL, NULL, NULL, &got[0].size, NULL));
  told("released count", TRITONBACKEND_RequestOutputCount(request, &got[0].n));
  return NULL;
}

/* What the request says of itself, in parameters of the response. */
static TRITONSERVER_Error* describe(TRITONBACKEND_Request* request) {
  TRITONBACKEND_Response* response;
  const char *id, *key, *output;
  uint64_t correlation = 0, timeout;
  uint32_t flags, n, outputs;
  TRY(TRITONBACKEND_ResponseNew(&response, request));
  TRY(TRITONBACKEND_RequestId(request, &id));
  TRY(TRITONBACKEND_RequestCorrelationId(request, &correlation));
  TRY(TRITONBACKEND_RequestFlags(request, &flags));
  TRY(TRITONBACKEND_InferenceRequestTimeoutMicroseconds(request, &timeout));
  TRY(TRITONBACKEND_RequestOutputCount(request, &outputs));
  TRY(TRITONBACKEND_RequestOutputName(request, 0, &output));
  TRY(TRITONBACKEND_ResponseSetStringParameter(response, "id", id));
  TRY(TRITONBACKEND_ResponseSetStringParameter(response, "output", output));
  TRY(TRITONBACKEND_ResponseSetIntParameter(response, "outputs", outputs));
  TRY(TRITONBACKEND_ResponseSetIntParameter(response, "timeout", (int64_t)timeout));
  TRY(TRITONBACKEND_RequestParameterCount(request, &n));
  for (uint32_t i = 0; i < n; i++) {
    TRITONSERVER_ParameterType type;
    const void* value;
    char name[64];
    TRY(TRITONBACKEND_RequestParameter(request, i, &key, &type, &value));
    snprintf(name, sizeof name, "got_%s", key);
    if (type == TRITONSERVER_PARAMETER_STRING) TRY(TRITONBACKEND_ResponseSetStringParameter(response, name, value));
    if (type == TRITONSERVER_PARAMETER_INT) TRY(TRITONBACKEND_ResponseSetIntParameter(response, name, *(const int64_t*)value));
    if (type == TRITONSERVER_PARAMETER_BOOL) TRY(TRITONBACKEND_ResponseSetBoolParameter(response, name, *(const bool*)value));
    if (type == TRITONSERVER_PARAMETER_DOUBLE) {
      TRY(TRITONBACKEND_ResponseSetDoubleParameter(response, name, *(const double*)value));
    }
  }
  TRY(echo(request, response));
  return TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, NULL);
}

static TRITONSERVER_Error* note(TRITONBACKEND_Response* response, const char* what, const void* piece, uint64_t size) {
  char text[64];
  snprintf(text, sizeof text, "%s of %d bytes", piece ? "memory" : "null", (int)size);
  return TRITONBACKEND_ResponseSetStringParameter(response, what, text);
}

/* The pieces of an input, asked for in every way. */
static TRITONSERVER_Error* pieces(TRITONBACKEND_Request* request) {
  TRITONBACKEND_Response* response;
  TRITONBACKEND_Input* input;
  TRITONSERVER_BufferAttributes* attributes;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_GPU;
  int64_t id = 7;
  uint32_t count, of_policy;
  uint64_t size, size_of_policy;
  size_t told = 0;
  const void* piece;
  TRY(TRITONBACKEND_ResponseNew(&response, request));
  TRY(TRITONBACKEND_RequestInput(request, "IN0", &input));
  TRY(TRITONBACKEND_InputProperties(input, NULL, NULL, NULL, NULL, &size, &count));
  TRY(TRITONBACKEND_InputPropertiesForHostPolicy(input, "unheard_of", NULL, NULL, NULL, NULL, &size_of_policy, &of_policy));
  TRY(TRITONBACKEND_ResponseSetIntParameter(response, "count", count));
  TRY(TRITONBACKEND_ResponseSetBoolParameter(response, "same", count == of_policy && size == size_of_policy));
  TRY(TRITONBACKEND_InputBuffer(input, 0, &piece, &size, &type, &id));
  TRY(note(response, "first", piece, size));
  TRY(TRITONBACKEND_ResponseSetBoolParameter(response, "on_cpu", type == TRITONSERVER_MEMORY_CPU && id == 0));
  TRY(TRITONBACKEND_InputBufferForHostPolicy(input, NULL, 0, &piece, &size, &type, &id));
  TRY(note(response, "first_of_none", piece, size));
  TRY(TRITONBACKEND_InputBufferForHostPolicy(input, "unheard_of", 0, &piece, &size, &type, &id));
  TRY(note(response, "first_of_other", piece, size));
  TRY(TRITONBACKEND_InputBuffer(input, 5, &piece, &size, &type, &id));
  TRY(note(response, "behind", piece, size));
  TRY(TRITONBACKEND_InputBufferAttributes(input, 0, &piece, &attributes));
  if (attributes) TRY(TRITONSERVER_BufferAttributesByteSize(attributes, &told));
  TRY(note(response, "first_attributes", attributes, told));
  TRY(TRITONBACKEND_InputBufferAttributes(input, 5, &piece, &attributes));
  TRY(note(response, "behind_attributes", attributes, 0));
  TRY(echo(request, response));
  return TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, NULL);
}

/* The running sum of a sequence, kept by the server. */
static TRITONSERVER_Error* sum(TRITONBACKEND_Request* request) {
  TRITONBACKEND_Input *input, *kept;
  const void *in, *before;
  uint64_t size;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  int64_t id = 0;
  TRY(TRITONBACKEND_RequestInput(request, "IN0", &input));
  TRY(TRITONBACKEND_RequestInput(request, "STATE_IN", &kept));
  TRY(TRITONBACKEND_InputBuffer(input, 0, &in, &size, &type, &id));
  TRY(TRITONBACKEND_InputBuffer(kept, 0, &before, &size, &type, &id));
  int32_t total = *(const int32_t*)in + *(const int32_t*)before;
  const int64_t* shape;
  uint32_t dims;
  TRITONBACKEND_State* state;
  TRITONBACKEND_Response* response;
  TRITONBACKEND_Output* output;
  void* to;
  TRY(TRITONBACKEND_InputProperties(input, NULL, NULL, &shape, &dims, NULL, NULL));
  TRY(TRITONBACKEND_ResponseNew(&response, request));
  TRY(TRITONBACKEND_ResponseOutput(response, &output, "OUT0", TRITONSERVER_TYPE_INT32, shape, dims));
  TRY(TRITONBACKEND_OutputBuffer(output, &to, 4, &type, &id));
  memcpy(to, &total, 4);
  TRY(TRITONBACKEND_StateNew(&state, request, "STATE_OUT", TRITONSERVER_TYPE_INT32, shape, dims));
  TRY(TRITONBACKEND_StateBuffer(state, &to, 4, &type, &id));
  memcpy(to, &total, 4);
  TRY(TRITONBACKEND_StateUpdate(state));
  return TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, NULL);
}

static TRITONSERVER_Error* run(TRITONBACKEND_Request* request, const char* what) {
  TRITONBACKEND_Response* response;
  if (strcmp(what, "describe") == 0) {
    TRY(describe(request));
  } else if (strcmp(what, "pieces") == 0) {
    TRY(pieces(request));
  } else if (strcmp(what, "sum") == 0) {
    TRY(sum(request));
  } else if (strcmp(what, "error") == 0) {
    TRITONSERVER_Error* e = TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_NOT_FOUND, "nothing there");
    TRY(TRITONBACKEND_ResponseNew(&response, request));
    TRY(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, e));
    TRITONSERVER_ErrorDelete(e);
  } else if (strcmp(what, "crash") == 0) {
    *(volatile int*)8 = 1;
  } else if (strcmp(what, "abort") == 0) {
    abort();
  } else if (strcmp(what, "exit") == 0) {
    _exit(3);
  } else if (strcmp(what, "hang") == 0) {
    fprintf(stderr, "behave: it hangs\n");
    for (;;) pause();
  } else if (strcmp(what, "leak") == 0) {
    static char* kept;
    for (int mib = 0;; mib += 16) {
      char* block = malloc(16 << 20);
      if (!block) {
        fprintf(stderr, "behave: no memory after %d MiB\n", mib);
        abort();
      }
      memset(block, 1, 16 << 20);
      *(char**)block = kept;
      kept = block;
    }
  } else if (strcmp(what, "overrun") == 0) {
    TRY(overrun(request, 60, 4));
  } else if (strcmp(what, "overrun_far") == 0) {
    TRY(overrun(request, 64, 64));
  } else if (strcmp(what, "overrun_large") == 0) {
    TRY(overrun(request, 1 << 20, 1));
  } else if (strcmp(what, "write_input") == 0) {
    TRITONBACKEND_Input* input;
    const void* from;
    uint64_t size;
    TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
    int64_t id = 0;
    TRY(TRITONBACKEND_RequestInput(request, "IN0", &input));
    TRY(TRITONBACKEND_InputBuffer(input, 0, &from, &size, &type, &id));
    memset((void*)(uintptr_t)from, 1, size);
    TRY(answer(request));
  } else if (strcmp(what, "wrong_size") == 0) {
    TRITONBACKEND_Output* output;
    TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
    int64_t id = 0, shape[2] = {1, 100};
    void* to;
    TRY(TRITONBACKEND_ResponseNew(&response, request));
    TRY(TRITONBACKEND_ResponseOutput(response, &output, "OUT0", TRITONSERVER_TYPE_INT32, shape, 2));
    TRY(TRITONBACKEND_OutputBuffer(output, &to, 8, &type, &id));
    TRY(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, NULL));
  } else if (strcmp(what, "twice") == 0) {
    TRY(answer(request));
    told("twice", answer(request));
  } else if (strcmp(what, "never") == 0) {
    return release(request);
  } else if (strcmp(what, "release_twice") == 0) {
    TRY(answer(request));
    TRY(release(request));
    told("release twice", release(request));
    return NULL;
  } else if (strcmp(what, "after_release") == 0) {
    TRY(answer(request));
    TRY(release(request));
    told("after release", TRITONBACKEND_ResponseNew(&response, request));
    return NULL;
  } else if (strcmp(what, "stale") == 0) {
    return stale(request);
  } else if (strcmp(what, "shows") == 0) {
    return shows(request);
  } else if (strcmp(what, "late") == 0) {
    TRITONBACKEND_ResponseFactory* factory;
    pthread_t thread;
    TRY(TRITONBACKEND_ResponseFactoryNew(&factory, request));
    TRY(release(request));
    pthread_create(&thread, NULL, later, factory);
    pthread_detach(thread);
    return NULL;
  } else if (strcmp(what, "many") == 0) {
    TRITONBACKEND_ResponseFactory* factory;
    TRY(TRITONBACKEND_ResponseFactoryNew(&factory, request));
    for (int i = 0; i < 1000; i++) {
      TRY(TRITONBACKEND_ResponseNewFromFactory(&response, factory));
      TRY(echo(request, response));
      TRY(TRITONBACKEND_ResponseSend(response, 0, NULL));
    }
    TRY(release(request));
    TRY(TRITONBACKEND_ResponseFactorySendFlags(factory, TRITONSERVER_RESPONSE_COMPLETE_FINAL));
    return TRITONBACKEND_ResponseFactoryDelete(factory);
  } else if (strcmp(what, "misuse") == 0) {
    void* p;
    TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
    int64_t id = 0;
    uint32_t n;
    told("null", TRITONBACKEND_RequestInputCount(NULL, &n));
    told("made up", TRITONBACKEND_RequestInputCount((TRITONBACKEND_Request*)0x1234, &n));
    told("index", TRITONBACKEND_RequestInputName(request, 77, (const char**)&p));
    told("name", TRITONBACKEND_RequestInput(request, "NONE", (TRITONBACKEND_Input**)&p));
    told("datatype", (TRITONBACKEND_ResponseNew(&response, request),
                      TRITONBACKEND_ResponseOutput(response, (TRITONBACKEND_Output**)&p, "OUT0", 55, NULL, 0)));
    told("kind", TRITONBACKEND_OutputBuffer((TRITONBACKEND_Output*)request, &p, 4, &type, &id));
    TRY(TRITONBACKEND_ResponseDelete(response));
    told("deleted", TRITONBACKEND_ResponseDelete(response));
    TRY(answer(request));
  } else {
    TRY(answer(request));
  }
  return release(request);
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  (void)instance;
  for (uint32_t i = 0; i < count; i++) {
    char what[32];
    TRY(parameter(requests[i], "do", what, sizeof what));
    if (strcmp(what, "error_return") == 0) return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNSUPPORTED, "not this batch");
    TRITONSERVER_Error* e = run(requests[i], what);
    if (e) {
      SAY("run: %s", TRITONSERVER_ErrorMessage(e));
      TRITONSERVER_ErrorDelete(e);
    }
  }
  return NULL;
}
