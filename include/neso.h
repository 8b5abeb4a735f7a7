/* What this server has beside Triton's interface, for programs in C. Triton's library has none of it: a program that
 * is to run with either asks for a function by dlsym. Objects, strings and errors are those of tritonserver.h. */
#ifndef NESO_H
#define NESO_H

#include "triton/core/tritonserver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Gives the rules for the versions of a model (labels, weights, mirror, step back), and what has happened under them:
 * the JSON of GET v2/repository/models/M/rollout. The message is the caller's. */
TRITONSERVER_DECLSPEC TRITONSERVER_Error* NESO_ServerModelRollout(TRITONSERVER_Server* server, const char* model_name,
    TRITONSERVER_Message** rollout);

/* Changes them all at once: a request sees either the old rules or the new ones. The change is JSON or YAML with the
 * sections of rollout.yaml; one that it lacks stays as it is, and null takes one away. With model control mode EXPLICIT
 * only. */
TRITONSERVER_DECLSPEC TRITONSERVER_Error* NESO_ServerSetModelRollout(TRITONSERVER_Server* server, const char* model_name,
    const char* change);

#ifdef __cplusplus
}
#endif

#endif
