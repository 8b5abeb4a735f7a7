// Throws out of the call of the server.
#include <stdexcept>

#include "triton/core/tritonbackend.h"

extern "C" TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance*, TRITONBACKEND_Request**, uint32_t) {
  throw std::runtime_error("thrown out of execute");
}
