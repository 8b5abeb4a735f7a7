/* A repository agent that writes down each call of the server, and does what its parameters say:
 *   log      the file to write to
 *   refuse   the action that fails ("MODEL_INITIALIZE", "LOAD", ...)
 *   move     the model's files go to a place that is acquired
 *   ask      "1", "more": the functions of the server are called with what they do not take, and their answers written down
 *   count    "1": loads are counted by a metric, as long as the agent lives
 *   do       "crash", "exit", "hang", "abort": in LOAD;  "crash_late": in LOAD_COMPLETE
 * The name that it was compiled for is NAME. */
#include <pthread.h>
#include <stdarg.h>

#include "agent.h"

static char log_path[4096];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int initialized, models;

static void tell(const char* format, ...) {
  if (!log_path[0]) return;
  pthread_mutex_lock(&lock);
  FILE* f = fopen(log_path, "a");
  if (f) {
    va_list args;
    va_start(args, format);
    fprintf(f, NAME ": ");
    vfprintf(f, format, args);
    fputc('\n', f);
    va_end(args);
    fclose(f);
  }
  pthread_mutex_unlock(&lock);
}

static const char* parameter(TRITONREPOAGENT_Agent* agent, TRITONREPOAGENT_AgentModel* model, const char* key) {
  uint32_t n = 0;
  if (drop(TRITONREPOAGENT_ModelParameterCount(agent, model, &n))) return "";
  for (uint32_t i = 0; i < n; i++) {
    const char *name, *value;
    if (!drop(TRITONREPOAGENT_ModelParameter(agent, model, i, &name, &value)) && !strcmp(name, key)) return value;
  }
  return "";
}

static const char* const actions[] = {"LOAD", "LOAD_COMPLETE", "LOAD_FAIL", "UNLOAD", "UNLOAD_COMPLETE"};

/* The answer of a call that is expected to fail, as CODE: TEXT. */
static void answer(const char* what, TRITONSERVER_Error* e) {
  if (!e) {
    tell("  %s -> ok", what);
    return;
  }
  tell("  %s -> %s: %s", what, TRITONSERVER_ErrorCodeString(e), TRITONSERVER_ErrorMessage(e));
  TRITONSERVER_ErrorDelete(e);
}

TRITONSERVER_Error* TRITONREPOAGENT_Initialize(TRITONREPOAGENT_Agent* agent) {
  const char* path = getenv("TELLS_LOG");
  snprintf(log_path, sizeof log_path, "%s", path ? path : "");
  uint32_t major = 9, minor = 9;
  TRY(TRITONREPOAGENT_ApiVersion(&major, &minor));
  void* state = (void*)1;
  TRY(TRITONREPOAGENT_State(agent, &state));
  tell("Initialize version %u.%u state %s", major, minor, state ? "set" : "null");
  initialized++;
  return TRITONREPOAGENT_SetState(agent, &initialized);
}

TRITONSERVER_Error* TRITONREPOAGENT_Finalize(TRITONREPOAGENT_Agent* agent) {
  void* state = NULL;
  TRY(TRITONREPOAGENT_State(agent, &state));
  tell("Finalize state %s", state == &initialized ? "kept" : "lost");
  return NULL;
}

static const char* model_name(TRITONREPOAGENT_Agent* agent, TRITONREPOAGENT_AgentModel* model) {
  return parameter(agent, model, "is");
}

static TRITONSERVER_Error* count(void) {
  static TRITONSERVER_MetricFamily* family;
  static TRITONSERVER_Metric* loads;
  if (!family) {
    TRY(TRITONSERVER_MetricFamilyNew(&family, TRITONSERVER_METRIC_KIND_COUNTER, "tells_loads_total", "Loads"));
    TRY(TRITONSERVER_MetricNew(&loads, family, NULL, 0));
  }
  return TRITONSERVER_MetricIncrement(loads, 1);
}

TRITONSERVER_Error* TRITONREPOAGENT_ModelInitialize(TRITONREPOAGENT_Agent* agent, TRITONREPOAGENT_AgentModel* model) {
  void* state = (void*)1;
  TRY(TRITONREPOAGENT_ModelState(model, &state));
  tell("%s ModelInitialize state %s", model_name(agent, model), state ? "set" : "null");
  TRY(TRITONREPOAGENT_ModelSetState(model, &models));
  if (*parameter(agent, model, "count")) TRY(count());
  if (!strcmp(parameter(agent, model, "refuse"), "MODEL_INITIALIZE")) return ERR(INVALID_ARG, "no such model, says " NAME);
  return NULL;
}

TRITONSERVER_Error* TRITONREPOAGENT_ModelFinalize(TRITONREPOAGENT_Agent* agent, TRITONREPOAGENT_AgentModel* model) {
  void* state = NULL;
  TRY(TRITONREPOAGENT_ModelState(model, &state));
  tell("%s ModelFinalize state %s", model_name(agent, model), state == &models ? "kept" : "lost");
  return NULL;
}

static void ask(TRITONREPOAGENT_Agent* agent, TRITONREPOAGENT_AgentModel* model, int action) {
  const char *name = NULL, *value = NULL, *place = NULL, *other = NULL;
  TRITONSERVER_Message* message = NULL;
  uint32_t n = 0;
  TRITONREPOAGENT_ModelParameterCount(agent, model, &n);
  answer("ModelParameter behind the last", TRITONREPOAGENT_ModelParameter(agent, model, n, &name, &value));
  answer("ModelConfig version 2", TRITONREPOAGENT_ModelConfig(agent, model, 2, &message));
  answer("LocationAcquire remote",
         TRITONREPOAGENT_ModelRepositoryLocationAcquire(agent, model, TRITONREPOAGENT_ARTIFACT_REMOTE_FILESYSTEM, &place));
  answer("LocationAcquire", TRITONREPOAGENT_ModelRepositoryLocationAcquire(agent, model, TRITONREPOAGENT_ARTIFACT_FILESYSTEM, &place));
  answer("LocationAcquire again",
         TRITONREPOAGENT_ModelRepositoryLocationAcquire(agent, model, TRITONREPOAGENT_ARTIFACT_FILESYSTEM, &other));
  tell("  the same place: %s", place && other && !strcmp(place, other) ? "yes" : "no");
  if (place) answer("LocationRelease", TRITONREPOAGENT_ModelRepositoryLocationRelease(agent, model, place));
  answer("LocationRelease twice", TRITONREPOAGENT_ModelRepositoryLocationRelease(agent, model, place ? place : "/nowhere"));
  if (action != TRITONREPOAGENT_ACTION_LOAD)
    answer("ModelRepositoryUpdate", TRITONREPOAGENT_ModelRepositoryUpdate(agent, model, TRITONREPOAGENT_ARTIFACT_FILESYSTEM, "/nowhere"));
}

/* What a server of ours takes less of. */
static void ask_more(TRITONREPOAGENT_Agent* agent, TRITONREPOAGENT_AgentModel* model) {
  TRITONREPOAGENT_ArtifactType type;
  const char *place = NULL, *here = NULL;
  uint32_t n;
  const TRITONREPOAGENT_ArtifactType local = TRITONREPOAGENT_ARTIFACT_FILESYSTEM;
  TRITONREPOAGENT_Agent* no_agent = (TRITONREPOAGENT_Agent*)model;
  TRITONREPOAGENT_AgentModel* no_model = (TRITONREPOAGENT_AgentModel*)agent;
  drop(TRITONREPOAGENT_ModelRepositoryLocationAcquire(agent, model, local, &place));
  answer("LocationRelease of another", TRITONREPOAGENT_ModelRepositoryLocationRelease(agent, model, "/nowhere"));
  answer("ModelRepositoryUpdate to nowhere", TRITONREPOAGENT_ModelRepositoryUpdate(agent, model, local, "/nowhere"));
  answer("ModelRepositoryUpdate to a relative place", TRITONREPOAGENT_ModelRepositoryUpdate(agent, model, local, "."));
  answer("ModelRepositoryUpdate remote",
         TRITONREPOAGENT_ModelRepositoryUpdate(agent, model, TRITONREPOAGENT_ARTIFACT_REMOTE_FILESYSTEM, "s3://a/b"));
  answer("ModelRepositoryUpdate of a type out of range",
         TRITONREPOAGENT_ModelRepositoryUpdate(agent, model, (TRITONREPOAGENT_ArtifactType)7, place));
  answer("ModelRepositoryUpdate of null", TRITONREPOAGENT_ModelRepositoryUpdate(agent, model, local, NULL));
  answer("ModelRepositoryLocation of no agent", TRITONREPOAGENT_ModelRepositoryLocation(no_agent, model, &type, &here));
  answer("ModelRepositoryLocation of no model", TRITONREPOAGENT_ModelRepositoryLocation(agent, no_model, &type, &here));
  answer("ModelRepositoryLocation into null", TRITONREPOAGENT_ModelRepositoryLocation(agent, model, NULL, &here));
  answer("ModelParameter into null", TRITONREPOAGENT_ModelParameter(agent, model, 0, NULL, NULL));
  answer("ModelConfig into null", TRITONREPOAGENT_ModelConfig(agent, model, 1, NULL));
  answer("State into null", TRITONREPOAGENT_State(agent, NULL));
  void* state;
  answer("ModelState of an agent", TRITONREPOAGENT_ModelState(no_model, &state));
  n = 0;
  answer("ModelParameterCount", TRITONREPOAGENT_ModelParameterCount(agent, model, &n));
}

static TRITONSERVER_Error* move(TRITONREPOAGENT_Agent* agent, TRITONREPOAGENT_AgentModel* model, const char* from) {
  const char* to;
  TRY(TRITONREPOAGENT_ModelRepositoryLocationAcquire(agent, model, TRITONREPOAGENT_ARTIFACT_FILESYSTEM, &to));
  char command[9000];
  snprintf(command, sizeof command, "cp -r '%s'/. '%s'", from, to);
  if (system(command)) return ERR(INTERNAL, "cp failed");
  return TRITONREPOAGENT_ModelRepositoryUpdate(agent, model, TRITONREPOAGENT_ARTIFACT_FILESYSTEM, to);
}

TRITONSERVER_Error* TRITONREPOAGENT_ModelAction(
    TRITONREPOAGENT_Agent* agent, TRITONREPOAGENT_AgentModel* model, const TRITONREPOAGENT_ActionType action) {
  const char* known = action <= TRITONREPOAGENT_ACTION_UNLOAD_COMPLETE ? actions[action] : "?";
  TRITONREPOAGENT_ArtifactType type;
  const char* place;
  TRY(TRITONREPOAGENT_ModelRepositoryLocation(agent, model, &type, &place));
  TRITONSERVER_Message* message = NULL;
  TRY(TRITONREPOAGENT_ModelConfig(agent, model, 1, &message));
  const char* text = "";
  size_t size = 0;
  char* config = NULL;
  if (message) {
    TRY(TRITONSERVER_MessageSerializeToJson(message, &text, &size));
    config = strndup(text, size);
    TRITONSERVER_MessageDelete(message);
  }
  char *at = config ? strstr(config, "\"backend\":\"") : NULL, *end = at ? strchr(at + 11, '"') : NULL;
  if (end) *end = 0;
  void* state = NULL;
  TRY(TRITONREPOAGENT_ModelState(model, &state));
  tell("%s %s type %d at %s%s config %s state %s", model_name(agent, model), known, (int)type, place, action == 0 ? "" : "",
       !config ? "none" : at ? at + 11 : "without backend", state == &models ? "kept" : "lost");
  free(config);
  if (!strcmp(parameter(agent, model, "ask"), "1")) ask(agent, model, action);
  if (!strcmp(parameter(agent, model, "ask"), "more") && action == TRITONREPOAGENT_ACTION_LOAD) ask_more(agent, model);
  const char* what = parameter(agent, model, "do");
  if (action == TRITONREPOAGENT_ACTION_LOAD) {
    if (!strcmp(what, "crash")) *(volatile int*)8 = 1;
    if (!strcmp(what, "abort")) abort();
    if (!strcmp(what, "exit")) exit(3);
    if (!strcmp(what, "hang")) for (;;) pause();
  }
  if (action == TRITONREPOAGENT_ACTION_LOAD_COMPLETE && !strcmp(what, "crash_late")) *(volatile int*)8 = 1;
  if (action == TRITONREPOAGENT_ACTION_UNLOAD && !strcmp(what, "hang_late")) for (;;) pause();
  if (!strcmp(parameter(agent, model, "refuse"), known)) return ERR(INVALID_ARG, "not while " NAME " is here");
  if (action == TRITONREPOAGENT_ACTION_LOAD && *parameter(agent, model, "move")) TRY(move(agent, model, place));
  return NULL;
}
