/* Says when models and instances begin and end: a line for each of the calls. */
#include "common.h"

TRITONSERVER_Error* TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model) {
  const char* name;
  TRY(TRITONBACKEND_ModelName(model, &name));
  SAY("order: ModelInitialize %s", name);
  return NULL;
}

TRITONSERVER_Error* TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model* model) {
  const char* name;
  TRY(TRITONBACKEND_ModelName(model, &name));
  SAY("order: ModelFinalize %s", name);
  return NULL;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* instance) {
  const char* name;
  TRY(TRITONBACKEND_ModelInstanceName(instance, &name));
  SAY("order: ModelInstanceInitialize %s", name);
  return NULL;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance* instance) {
  const char* name;
  TRY(TRITONBACKEND_ModelInstanceName(instance, &name));
  SAY("order: ModelInstanceFinalize %s", name);
  return NULL;
}
