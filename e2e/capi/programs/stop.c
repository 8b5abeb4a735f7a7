/* A server that is stopped: what it answers afterwards, and that a model whose finalize
 * does not end keeps no process. usage: stop REPOSITORY */
#include <dirent.h>

#include "check.h"

/* how many processes this one has started that still are */
static int children(void) {
  int n = 0;
  DIR* tasks = opendir("/proc/self/task");
  for (struct dirent* d; (d = readdir(tasks));) {
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%.20s/children", d->d_name);
    FILE* f = fopen(path, "r");
    if (!f) continue;
    if (fgets(line, sizeof line, f))
      for (char* c = line; *c; c++) n += *c == ' ';
    fclose(f);
  }
  closedir(tasks);
  return n;
}

int main(int argc, char** argv) {
  WANT(argc == 2);
  TRITONSERVER_ServerOptions* o = options(argv[1]);
  OK(TRITONSERVER_ServerOptionsSetStartupModel(o, "lingers"));
  TRITONSERVER_Server* s = serve(o, "identity");
  WANT(children() > 0);
  OK(TRITONSERVER_ServerSetExitTimeout(s, 1));
  REFUSED(TRITONSERVER_ServerStop(s), TRITONSERVER_ERROR_INTERNAL, "Exit timeout expired");

  /* as the peer: what is asked of a model that is gone says so, all else that the server is not ready */
  TRITONSERVER_InferenceRequest* r;
  TRITONSERVER_Message* m;
  bool ready;
  uint32_t flags;
  void* more;
  const char* gone = "Request for unknown model: 'identity' has no available versions";
  REFUSED(TRITONSERVER_InferenceRequestNew(&r, s, "identity", -1), TRITONSERVER_ERROR_NOT_FOUND, gone);
  REFUSED(TRITONSERVER_InferenceRequestNew(&r, s, "nobody", -1), TRITONSERVER_ERROR_NOT_FOUND, "'nobody' is not found");
  REFUSED(TRITONSERVER_ServerModelConfig(s, "identity", -1, 1, &m), TRITONSERVER_ERROR_NOT_FOUND, gone);
  REFUSED(TRITONSERVER_ServerModelMetadata(s, "identity", -1, &m), TRITONSERVER_ERROR_NOT_FOUND, gone);
  REFUSED(TRITONSERVER_ServerModelBatchProperties(s, "identity", -1, &flags, &more), TRITONSERVER_ERROR_NOT_FOUND, gone);
  REFUSED(TRITONSERVER_ServerModelTransactionProperties(s, "identity", -1, &flags, &more), TRITONSERVER_ERROR_NOT_FOUND, gone);
  REFUSED(TRITONSERVER_ServerModelIsReady(s, "identity", -1, &ready), TRITONSERVER_ERROR_UNAVAILABLE, "Server not ready");
  REFUSED(TRITONSERVER_ServerModelStatistics(s, "identity", -1, &m), TRITONSERVER_ERROR_UNAVAILABLE, "Server not ready");
  REFUSED(TRITONSERVER_ServerLoadModel(s, "identity"), TRITONSERVER_ERROR_UNAVAILABLE, "Server not ready");
  REFUSED(TRITONSERVER_ServerUnloadModel(s, "identity"), TRITONSERVER_ERROR_UNAVAILABLE, "Server not ready");
  OK(TRITONSERVER_ServerMetadata(s, &m));
  OK(TRITONSERVER_MessageDelete(m));
  OK(TRITONSERVER_ServerDelete(s));

  /* the process ends soon after, though its finalize would not: the test's own limit is what fails here */
  while (children() > 0) usleep(10000);
  return 0;
}
