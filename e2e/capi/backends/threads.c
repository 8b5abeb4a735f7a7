/* Says which instance a request ran on, on which thread, and with how many others at the same time on the same device.
 * A backend whose name begins with "device" blocks its device. */
#include <pthread.h>
#include <sys/syscall.h>

#include "common.h"

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static int running[64], most[64];

TRITONSERVER_Error* TRITONBACKEND_Initialize(TRITONBACKEND_Backend* backend) {
  const char* name;
  TRY(TRITONBACKEND_BackendName(backend, &name));
  if (strncmp(name, "device", 6) != 0) return NULL;
  return TRITONBACKEND_BackendSetExecutionPolicy(backend, TRITONBACKEND_EXECUTION_DEVICE_BLOCKING);
}

static void count(int device, int by) {
  pthread_mutex_lock(&mu);
  running[device] += by;
  if (running[device] > most[device]) most[device] = running[device];
  pthread_mutex_unlock(&mu);
}

static TRITONSERVER_Error* answer(TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request* request, TRITONBACKEND_Response* response) {
  TRITONBACKEND_Input* input;
  const char* name;
  int32_t device;
  TRY(TRITONBACKEND_ModelInstanceName(instance, &name));
  TRY(TRITONBACKEND_ModelInstanceDeviceId(instance, &device));
  TRY(TRITONBACKEND_ResponseSetStringParameter(response, "instance", name));
  TRY(TRITONBACKEND_ResponseSetIntParameter(response, "device", device));
  TRY(TRITONBACKEND_ResponseSetIntParameter(response, "thread", syscall(SYS_gettid)));
  TRY(TRITONBACKEND_ResponseSetIntParameter(response, "most", most[device & 63]));
  TRY(TRITONBACKEND_RequestInput(request, "IN0", &input));
  return copy_to(response, input, "OUT0");
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t n) {
  int32_t device;
  TRY(TRITONBACKEND_ModelInstanceDeviceId(instance, &device));
  count(device & 63, 1);
  usleep(20000); /* the others come meanwhile, if they may */
  for (uint32_t i = 0; i < n; i++) {
    TRITONBACKEND_Response* response;
    TRY(TRITONBACKEND_ResponseNew(&response, requests[i]));
    TRITONSERVER_Error* e = answer(instance, requests[i], response);
    TRITONSERVER_ErrorDelete(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, e));
    TRITONSERVER_ErrorDelete(e);
    TRITONSERVER_ErrorDelete(TRITONBACKEND_RequestRelease(requests[i], TRITONSERVER_REQUEST_RELEASE_ALL));
  }
  count(device & 63, -1);
  return NULL;
}
