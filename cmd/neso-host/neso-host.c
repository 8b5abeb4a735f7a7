/* neso-host runs libraries for the server, which starts it: backends, or what its argument says, a repository agent or
 * a cache. It opens libtritonserver.so, which lies beside it or in ../lib, and has it do the rest. It is a program of C
 * since it may be the only one here with a runtime of Go. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void* open_server(void) {
  static const char* const places[] = {"libtritonserver.so", "../lib/libtritonserver.so", "lib/libtritonserver.so"};
  char self[PATH_MAX], path[2 * PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n > 0) {
    self[n] = 0;
    const char* folder = dirname(self);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
      snprintf(path, sizeof path, "%s/%s", folder, places[i]);
      if (access(path, R_OK) == 0) return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    }
  }
  return dlopen("libtritonserver.so", RTLD_NOW | RTLD_GLOBAL);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "host";
  char symbol[64];
  snprintf(symbol, sizeof symbol, "neso_%s_main", what);
  void* server = open_server();
  if (!server) {
    fprintf(stderr, "neso-host: libtritonserver.so, which lies beside it, cannot be opened: %s\n", dlerror());
    return 1;
  }
  int (*run)(void) = (int (*)(void))dlsym(server, symbol);
  if (!run) {
    fprintf(stderr, "neso-host: the libtritonserver.so that was found is not Neso's: %s\n", dlerror());
    return 1;
  }
  fflush(stdout);
  _exit(run()); /* the ends of libraries do not run while threads of theirs do */
}
