/* Says what it prefers, by the macro PREFERS, and of each instance in which order it begins and ends. */
#include "common.h"

#define CPU TRITONSERVER_INSTANCEGROUPKIND_CPU
#define GPU TRITONSERVER_INSTANCEGROUPKIND_GPU
#define MODEL TRITONSERVER_INSTANCEGROUPKIND_MODEL
#define ADD(kind, count, ...) TRY(TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(a, kind, count, __VA_ARGS__))

TRITONSERVER_Error* TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend* backend, TRITONBACKEND_BackendAttribute* a) {
  static const uint64_t nowhere[] = {7777};
  (void)backend, (void)nowhere;
  PREFERS;
  return NULL;
}

static TRITONSERVER_Error* say(TRITONBACKEND_ModelInstance* instance, const char* what) {
  const char* name;
  TRITONSERVER_InstanceGroupKind kind;
  TRY(TRITONBACKEND_ModelInstanceName(instance, &name));
  TRY(TRITONBACKEND_ModelInstanceKind(instance, &kind));
  SAY("order: %s %s %s", what, name, TRITONSERVER_InstanceGroupKindString(kind));
  return NULL;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* instance) {
  return say(instance, "begin");
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance* instance) { return say(instance, "end"); }

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  (void)instance, (void)requests, (void)count;
  return ERR("it only prefers");
}
