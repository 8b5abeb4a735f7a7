#ifndef NESO_NATIVE_LOADER_H
#define NESO_NATIVE_LOADER_H

#include <stddef.h>
#include <stdint.h>

/* neso_open opens a library as backends are: all symbols at once, none shown to others. The text is the loader's. */
void* neso_open(const char* path, char* text, size_t room);
void* neso_symbol(void* library, const char* name, char* text, size_t room);
void neso_close(void* library);
/* neso_known opens a library by a bare name, so that others find it under it. */
void neso_known(const char* name);

uintptr_t neso_call1(void* f, uintptr_t a);
uintptr_t neso_call2(void* f, uintptr_t a, uintptr_t b);
uintptr_t neso_execute(void* f, uintptr_t instance, uintptr_t* requests, uint32_t count);

/* neso_catch says, when the process dies of a bad access, whose fault it was if it was at a place that neso_watch
 * was told of, and then lets it die. */
void neso_catch(void);
enum { NESO_OUTPUTS = 1, NESO_INPUTS = 2 };
void neso_watch(const void* base, size_t size, int kind);

uintptr_t TRITONSERVER_MessageNewFromSerializedJson(uintptr_t* message, const char* base, size_t size);
uintptr_t TRITONSERVER_MessageSerializeToJson(uintptr_t message, const char** base, size_t* size);
uintptr_t TRITONSERVER_BufferAttributesNew(uintptr_t* attributes);
uintptr_t TRITONSERVER_BufferAttributesDelete(uintptr_t attributes);
uintptr_t TRITONSERVER_BufferAttributesSetMemoryType(uintptr_t attributes, int type);
uintptr_t TRITONSERVER_BufferAttributesSetMemoryTypeId(uintptr_t attributes, int64_t id);
uintptr_t TRITONSERVER_BufferAttributesSetByteSize(uintptr_t attributes, size_t size);

#endif
