#ifndef NESO_NATIVE_LOADER_H
#define NESO_NATIVE_LOADER_H

#include <stddef.h>
#include <stdint.h>

/* neso_open opens a library as backends are: all symbols at once, none shown to others. The text is the loader's. */
void* neso_open(const char* path, char* text, size_t room);
void* neso_symbol(void* library, const char* name, char* text, size_t room);
void neso_close(void* library);
/* neso_share shows the functions of this library to all that are opened from now on. */
void neso_share(void);
/* neso_known opens a library by a bare name, so that others find it under it. */
void neso_known(const char* name);

uintptr_t neso_call1(void* f, uintptr_t a);
uintptr_t neso_call2(void* f, uintptr_t a, uintptr_t b);
/* neso_out calls a function that puts a pointer where its argument of that number, from 0, points to. */
uintptr_t neso_out(void* f, uintptr_t a, int where, uintptr_t* to);
uintptr_t neso_includes(void* f, uintptr_t request, uintptr_t batch, int* whether);
uintptr_t neso_execute(void* f, uintptr_t instance, uintptr_t* requests, uint32_t count);
/* neso_executing is the instance whose neso_execute this thread is in, 0 for none. */
uintptr_t neso_executing(void);

/* neso_catch says, when the process dies of a bad access, whose fault it was if it was at a place that neso_watch
 * was told of, and then lets it die. */
void neso_catch(void);
enum { NESO_OUTPUTS = 1, NESO_INPUTS = 2 };
void neso_watch(const void* base, size_t size, int kind);

#endif
