/* What the test agents share. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "triton/core/tritonrepoagent.h"

#define TRY(call)                    \
  do {                               \
    TRITONSERVER_Error* e_ = (call); \
    if (e_) return e_;               \
  } while (0)

#define ERR(code, text) TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_##code, text)

/* Whether there was an error, which is gone. */
static inline int drop(TRITONSERVER_Error* e) {
  TRITONSERVER_ErrorDelete(e);
  return e != NULL;
}
