/* A repository agent and a response cache that are libraries, named by the options of a server in this process.
 * usage: plugins AGENTS CACHES REPOSITORY */
#include "check.h"

int main(int argc, char** argv) {
  WANT(argc == 4);
  TRITONSERVER_ServerOptions* o = options(argv[3]);
  OK(TRITONSERVER_ServerOptionsSetRepoAgentDirectory(o, argv[1]));
  OK(TRITONSERVER_ServerOptionsSetCacheDirectory(o, argv[2]));
  OK(TRITONSERVER_ServerOptionsSetCacheConfig(o, "tells", "{\"c\":\"3\"}"));
  TRITONSERVER_Server* s = serve(o, 0);
  bool ready = false;
  OK(TRITONSERVER_ServerLoadModel(s, "asked"));
  OK(TRITONSERVER_ServerModelIsReady(s, "asked", -1, &ready));
  WANT(ready);
  REFUSED(TRITONSERVER_ServerLoadModel(s, "refused"), TRITONSERVER_ERROR_INTERNAL, "not while a is here");
  OK(TRITONSERVER_ServerUnloadModel(s, "asked"));
  OK(TRITONSERVER_ServerDelete(s));
  return 0;
}
