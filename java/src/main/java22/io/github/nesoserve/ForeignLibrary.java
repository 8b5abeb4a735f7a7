package io.github.nesoserve;

import static java.lang.foreign.ValueLayout.JAVA_BOOLEAN;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_DOUBLE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodType;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;

/** How a function of the library is found and called, and what it answers read. */
final class ForeignLibrary {
  private static final String NAME = "TRITONSERVER_";
  private static final int MOST_DIMENSIONS = 32;

  static final Linker LINKER = Linker.nativeLinker();
  private static final SymbolLookup LIBRARY = library();

  /** Texts of models and tensors as the library wants them: the same few come again and again. */
  private static final ConcurrentHashMap<String, Long> TEXTS = new ConcurrentHashMap<>();

  private static final int MOST_TEXTS = 1024;

  /** Handles of functions that are not called often, by their names. */
  private static final ConcurrentHashMap<String, MethodHandle> RARE = new ConcurrentHashMap<>();

  private static final MethodHandle ERROR_CODE = function("ErrorCode", JAVA_INT, JAVA_LONG);
  private static final MethodHandle ERROR_MESSAGE = function("ErrorMessage", JAVA_LONG, JAVA_LONG);
  static final MethodHandle ERROR_NEW = function("ErrorNew", JAVA_LONG, JAVA_INT, JAVA_LONG);
  private static final MethodHandle ERROR_DELETE = LINKER.downcallHandle(find("ErrorDelete"), FunctionDescriptor.ofVoid(JAVA_LONG));

  private ForeignLibrary() {}

  /** Places for what functions answer, one after the other. */
  static final class Places {
    private static final ConcurrentLinkedQueue<Places> FREE = new ConcurrentLinkedQueue<>();
    private static final int COUNT = 8;

    final MemorySegment at = Arena.global().allocate(COUNT * Long.BYTES + MOST_DIMENSIONS * Long.BYTES, Long.BYTES);
    final long base = at.address();

    static Places take() {
      Places free = FREE.poll();
      return free == null ? new Places() : free;
    }

    void giveBack() {
      FREE.add(this);
    }

    long place(int i) {
      return base + (long) i * Long.BYTES;
    }

    long number(int i) {
      return at.get(JAVA_LONG, (long) i * Long.BYTES);
    }

    int integer(int i) {
      return at.get(JAVA_INT, (long) i * Long.BYTES);
    }

    long shape(long[] shape) {
      MemorySegment.copy(shape, 0, at, JAVA_LONG, (long) COUNT * Long.BYTES, shape.length);
      return place(COUNT);
    }
  }

  private static SymbolLookup library() {
    try {
      System.loadLibrary("tritonserver");
    } catch (UnsatisfiedLinkError e) {
      throw new IllegalStateException(
          e.getMessage() + "; is the directory of libtritonserver.so in -Djava.library.path or LD_LIBRARY_PATH?", e);
    }
    return SymbolLookup.loaderLookup();
  }

  private static MemorySegment find(String name) {
    return LIBRARY.find(NAME + name).orElseThrow(() -> new IllegalStateException("libtritonserver.so has no function " + NAME + name));
  }

  private static MethodHandle function(String name, MemoryLayout result, MemoryLayout... parameters) {
    return LINKER.downcallHandle(find(name), FunctionDescriptor.of(result, parameters));
  }

  /** A function that answers an error, or none. */
  static MethodHandle asked(String name, MemoryLayout... parameters) {
    return function(name, JAVA_LONG, parameters);
  }

  static MemoryLayout layout(Class<?> type) {
    return type == int.class ? JAVA_INT : type == boolean.class ? JAVA_BOOLEAN : type == double.class ? JAVA_DOUBLE : JAVA_LONG;
  }

  static MemorySegment at(long address, long size) {
    return MemorySegment.ofAddress(address).reinterpret(size);
  }

  static String string(long address) {
    return address == 0 ? "" : MemorySegment.ofAddress(address).reinterpret(Long.MAX_VALUE).getString(0);
  }

  static RuntimeException broken(Throwable e) {
    if (e instanceof Error error) {
      throw error;
    }
    return e instanceof RuntimeException known ? known : new IllegalStateException(e);
  }

  static NesoException exception(long error) {
    try {
      return new NesoException(ErrorCode.of((int) ERROR_CODE.invokeExact(error)), string((long) ERROR_MESSAGE.invokeExact(error)));
    } catch (Throwable e) {
      throw broken(e);
    }
  }

  static void ok(long error) {
    if (error == 0) {
      return;
    }
    NesoException e = exception(error);
    try {
      ERROR_DELETE.invokeExact(error);
    } catch (Throwable t) {
      throw broken(t);
    }
    throw e;
  }

  /** Calls a function that is not called often. Its arguments have the types of C's parameters. */
  static Object rare(String name, Object... arguments) {
    try (Arena arena = Arena.ofConfined()) {
      Object[] passed = arguments.clone();
      MemoryLayout[] parameters = new MemoryLayout[passed.length];
      for (int i = 0; i < passed.length; i++) {
        if (passed[i] instanceof String text) {
          passed[i] = arena.allocateFrom(text).address();
        }
        parameters[i] = layout(MethodType.methodType(passed[i].getClass()).unwrap().returnType());
      }
      MethodHandle handle = RARE.computeIfAbsent(name, n -> asked(n, parameters));
      return handle.invokeWithArguments(passed);
    } catch (Throwable e) {
      throw broken(e);
    }
  }

  static void call(String name, Object... arguments) {
    ok((long) rare(name, arguments));
  }

  /** What a function makes whose first parameter is the place for it. */
  static long made(String name, Object... arguments) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment place = arena.allocate(JAVA_LONG);
      Object[] all = new Object[arguments.length + 1];
      all[0] = place.address();
      System.arraycopy(arguments, 0, all, 1, arguments.length);
      call(name, all);
      return place.get(JAVA_LONG, 0);
    }
  }

  /** What a function answers in a place that is its last parameter. */
  static long answer(String name, Object... arguments) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment place = arena.allocate(JAVA_LONG);
      Object[] all = java.util.Arrays.copyOf(arguments, arguments.length + 1);
      all[arguments.length] = place.address();
      call(name, all);
      return place.get(JAVA_LONG, 0);
    }
  }

  /** The text of an object of the library: its first byte and its size, as a function answers them. */
  static String whole(String name, Object... arguments) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment places = arena.allocate(JAVA_LONG, 2);
      Object[] all = java.util.Arrays.copyOf(arguments, arguments.length + 2);
      all[arguments.length] = places.address();
      all[arguments.length + 1] = places.address() + Long.BYTES;
      call(name, all);
      MemorySegment text = at(places.get(JAVA_LONG, 0), places.get(JAVA_LONG, Long.BYTES));
      return new String(text.toArray(JAVA_BYTE), StandardCharsets.UTF_8);
    }
  }

  /** A text that the library reads while the arena is open. */
  static long text(Arena arena, String text) {
    Long kept = TEXTS.get(text);
    if (kept != null) {
      return kept;
    }
    if (TEXTS.size() >= MOST_TEXTS) {
      return arena.allocateFrom(text).address();
    }
    return TEXTS.computeIfAbsent(text, t -> Arena.global().allocateFrom(t).address());
  }
}
