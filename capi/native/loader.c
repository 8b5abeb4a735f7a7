#define _GNU_SOURCE
#include "loader.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void tell(char* text, size_t room) {
  const char* why = dlerror();
  snprintf(text, room, "%s", why ? why : "unknown reason");
}

void* neso_open(const char* path, char* text, size_t room) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) tell(text, room);
  return library;
}

void* neso_symbol(void* library, const char* name, char* text, size_t room) {
  dlerror();
  void* at = dlsym(library, name);
  if (!at) tell(text, room);
  return at;
}

void neso_close(void* library) { dlclose(library); }

void neso_known(const char* name) {
  if (!dlopen(name, RTLD_NOW | RTLD_NOLOAD)) dlopen(name, RTLD_NOW);
}

void neso_share(void) {
  Dl_info info;
  static const char here;
  if (dladdr(&here, &info)) dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

uintptr_t neso_call1(void* f, uintptr_t a) { return ((uintptr_t(*)(uintptr_t))f)(a); }

uintptr_t neso_call2(void* f, uintptr_t a, uintptr_t b) { return ((uintptr_t(*)(uintptr_t, uintptr_t))f)(a, b); }

uintptr_t neso_out(void* f, uintptr_t a, int where, uintptr_t* to) {
  return where ? neso_call2(f, a, (uintptr_t)to) : neso_call2(f, (uintptr_t)to, a);
}

uintptr_t neso_includes(void* f, uintptr_t request, uintptr_t batch, int* whether) {
  bool include = false;
  uintptr_t failure = ((uintptr_t(*)(uintptr_t, uintptr_t, bool*))f)(request, batch, &include);
  *whether = include;
  return failure;
}

static __thread uintptr_t executing;

uintptr_t neso_execute(void* f, uintptr_t instance, uintptr_t* requests, uint32_t count) {
  executing = instance;
  uintptr_t failure = ((uintptr_t(*)(uintptr_t, uintptr_t*, uint32_t))f)(instance, requests, count);
  executing = 0;
  return failure;
}

uintptr_t neso_executing(void) { return executing; }

enum { WATCHED = 4096 };
static struct { _Atomic(const char*) base; size_t size; int kind; } watched[WATCHED];
static atomic_int watching;

void neso_watch(const void* base, size_t size, int kind) {
  int i = atomic_fetch_add(&watching, 1);
  if (i >= WATCHED) return;
  watched[i].size = size;
  watched[i].kind = kind;
  atomic_store(&watched[i].base, (const char*)base);
}

static void say(const char* text) {
  if (write(2, text, strlen(text)) < 0) return;
}

static void fault(int number, siginfo_t* info, void* context) {
  (void)context;
  const char* at = (const char*)info->si_addr;
  int n = atomic_load(&watching);
  for (int i = n > WATCHED ? WATCHED - 1 : n - 1; i >= 0; i--) {
    const char* base = atomic_load(&watched[i].base);
    if (!base || at < base || at >= base + watched[i].size) continue;
    say(watched[i].kind == NESO_OUTPUTS
            ? "neso-host: the backend library went beyond the end of the memory that TRITONBACKEND_OutputBuffer gave it\n"
            : "neso-host: the backend library wrote to the memory of an input, which is there to be read\n");
    break;
  }
  signal(number, SIG_DFL); /* the instruction runs again, and the process dies of it */
}

void neso_catch(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, 0);
  sigaction(SIGBUS, &action, 0);
  signal(SIGABRT, SIG_DFL);
  signal(SIGFPE, SIG_DFL);
  signal(SIGILL, SIG_DFL);
}
