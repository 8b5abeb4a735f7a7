package io.github.nesoserve;

import static io.github.nesoserve.ForeignLibrary.ERROR_NEW;
import static io.github.nesoserve.ForeignLibrary.LINKER;
import static io.github.nesoserve.ForeignLibrary.at;
import static io.github.nesoserve.ForeignLibrary.made;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemoryLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;

/** What the library calls: when a request is released, when it is answered, and where an output goes. */
final class ForeignCallbacks {
  static final int CPU = 0;
  private static final int INTERNAL = 1;
  private static final int UNSUPPORTED = 5;

  // One callback of each kind for all requests: the key tells them apart.
  static final long RELEASED =
      callback("released", MethodType.methodType(void.class, long.class, int.class, long.class));
  static final long ANSWERED =
      callback("answered", MethodType.methodType(void.class, long.class, int.class, long.class));
  static final long ALLOCATOR = allocator();

  private ForeignCallbacks() {}

  private static long callback(String name, MethodType type) {
    try {
      MethodHandle target = MethodHandles.lookup().findStatic(ForeignCallbacks.class, name, type);
      MemoryLayout[] parameters = type.parameterList().stream().map(ForeignLibrary::layout).toArray(MemoryLayout[]::new);
      FunctionDescriptor as =
          type.returnType() == void.class ? FunctionDescriptor.ofVoid(parameters) : FunctionDescriptor.of(JAVA_LONG, parameters);
      return LINKER.upcallStub(target, as, Arena.global()).address();
    } catch (ReflectiveOperationException e) {
      throw new AssertionError(e);
    }
  }

  private static long allocator() {
    MethodType give =
        MethodType.methodType(
            long.class,
            long.class, long.class, long.class, int.class, long.class, long.class, long.class, long.class, long.class, long.class);
    MethodType takeBack =
        MethodType.methodType(long.class, long.class, long.class, long.class, long.class, int.class, long.class);
    long allocate = callback("allocate", give);
    long keep = callback("keep", takeBack);
    return made("ResponseAllocatorNew", allocate, keep, 0L);
  }

  private static long allocate(
      long a, long name, long size, int type, long id, long key, long buffer, long bufferUser, long gotType, long gotId) {
    String message = "an output has at most 2147483647 bytes in Java";
    int code = UNSUPPORTED;
    try {
      long address = Flight.allocate(key, size);
      if (address != 0) {
        at(buffer, Long.BYTES).set(JAVA_LONG, 0, address);
        at(gotType, Integer.BYTES).set(JAVA_INT, 0, CPU);
        at(gotId, Long.BYTES).set(JAVA_LONG, 0, 0);
        return 0;
      }
    } catch (Throwable e) {
      code = INTERNAL;
      message = "no memory for an output: " + e;
    }
    try (Arena arena = Arena.ofConfined()) {
      return (long) ERROR_NEW.invokeExact(code, arena.allocateFrom(message).address());
    } catch (Throwable e) {
      return 0;
    }
  }

  private static long keep(long a, long buffer, long user, long size, int type, long id) {
    return 0; // the tensor of the response has it
  }

  private static void released(long request, int flags, long key) {
    try {
      Flight.released(key);
    } catch (Throwable e) {
      failed(e);
    }
  }

  private static void answered(long response, int flags, long key) {
    try {
      Flight.answered(key, response, flags);
    } catch (Throwable e) {
      failed(e);
    }
  }

  /** Nothing may be thrown into a thread of the library. */
  private static void failed(Throwable e) {
    System.getLogger(Foreign.class.getName()).log(System.Logger.Level.ERROR, "a callback failed", e);
  }
}
