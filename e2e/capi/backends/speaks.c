/* Writes to the server's log: at every level as its model is loaded, and at the ends of model and library. */
#include "common.h"

static TRITONSERVER_Error* say(TRITONSERVER_LogLevel level, int line, const char* text) {
  return TRITONSERVER_LogMessage(level, "/far/away/speaks.cc", line, text);
}

TRITONSERVER_Error* TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model) {
  (void)model;
  TRY(say(TRITONSERVER_LOG_INFO, 41, "an info"));
  TRY(say(TRITONSERVER_LOG_WARN, 42, "a \"warning\"\nof two lines, with a byte \xff"));
  TRY(say(TRITONSERVER_LOG_ERROR, 43, "an error"));
  TRY(say(TRITONSERVER_LOG_VERBOSE, 44, "a detail"));
  TRY(say(TRITONSERVER_LOG_INFO, 45, TRITONSERVER_LogIsEnabled(TRITONSERVER_LOG_VERBOSE) ? "verbose is on" : "verbose is off"));
  TRITONSERVER_Error* unknown = say((TRITONSERVER_LogLevel)9, 46, "of no level");
  TRY(say(TRITONSERVER_LOG_INFO, 47, unknown ? TRITONSERVER_ErrorMessage(unknown) : "no error"));
  TRITONSERVER_ErrorDelete(unknown);
  return NULL;
}

TRITONSERVER_Error* TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model* model) {
  (void)model;
  return say(TRITONSERVER_LOG_INFO, 51, "the model ends");
}

TRITONSERVER_Error* TRITONBACKEND_Finalize(TRITONBACKEND_Backend* backend) {
  (void)backend;
  return say(TRITONSERVER_LOG_INFO, 52, "the library ends");
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  (void)instance, (void)requests, (void)count;
  return ERR("it only speaks");
}
