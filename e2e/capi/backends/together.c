/* Says of each instance whether INSTANCES of them were being initialized at once; with PARALLEL it asks for that. Of the
 * model "outer" an instance loads the model "inner" first, and of "ender" it is the end of the process. */
#include <stdatomic.h>

#include "common.h"

#ifndef INSTANCES
#define INSTANCES 1
#endif

TRITONSERVER_Error* TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend* backend, TRITONBACKEND_BackendAttribute* a) {
  (void)backend, (void)a;
#ifdef PARALLEL
  TRY(TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(a, true));
#endif
  return NULL;
}

static atomic_int begun;

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* instance) {
  const char *name, *of;
  TRITONBACKEND_Model* model;
  TRITONSERVER_Server* server;
  TRY(TRITONBACKEND_ModelInstanceName(instance, &name));
  TRY(TRITONBACKEND_ModelInstanceModel(instance, &model));
  TRY(TRITONBACKEND_ModelName(model, &of));
  TRY(TRITONBACKEND_ModelServer(model, &server));
  if (!strcmp(of, "ender")) _exit(3);
  if (!strcmp(of, "outer")) TRY(TRITONSERVER_ServerLoadModel(server, "inner"));
  begun++;
  for (int i = 0; begun < INSTANCES && i < 10000; i++) {
#ifndef PARALLEL
    break;
#endif
    usleep(1000);
  }
  SAY("initialized: %s %s", name, begun >= INSTANCES ? "together" : "alone");
  return NULL;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance* instance) {
  const char* name;
  TRY(TRITONBACKEND_ModelInstanceName(instance, &name));
  SAY("finalized: %s", name);
  return NULL;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  (void)instance, (void)requests, (void)count;
  return ERR("it only begins");
}
