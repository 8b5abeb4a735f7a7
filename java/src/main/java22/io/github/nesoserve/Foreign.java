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
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * The library by the foreign function interface of Java 22. Pointers are numbers here: what is an
 * address to C is a {@code long}, which has the same size.
 */
final class Foreign implements Native {
  private static final String NAME = "TRITONSERVER_";
  private static final int CONFIG_VERSION = 1;
  private static final int READY_ONLY = 1;
  private static final int CPU = 0;
  private static final int STRING = 0;
  private static final int INT = 1;
  private static final int BOOL = 2;
  private static final int DOUBLE = 3;
  private static final int INTERNAL = 1;
  private static final int UNSUPPORTED = 5;
  private static final int MOST_DIMENSIONS = 32;

  private static final Linker LINKER = Linker.nativeLinker();
  private static final SymbolLookup LIBRARY = library();

  /** Texts of models and tensors as the library wants them: the same few come again and again. */
  private static final ConcurrentHashMap<String, Long> TEXTS = new ConcurrentHashMap<>();

  private static final int MOST_TEXTS = 1024;

  /** Handles of functions that are not called often, by their names. */
  private static final ConcurrentHashMap<String, MethodHandle> RARE = new ConcurrentHashMap<>();

  // What a request needs has a handle of its own, which the compiler sees through.
  private static final MethodHandle ERROR_CODE = function("ErrorCode", JAVA_INT, JAVA_LONG);
  private static final MethodHandle ERROR_MESSAGE = function("ErrorMessage", JAVA_LONG, JAVA_LONG);
  private static final MethodHandle ERROR_NEW = function("ErrorNew", JAVA_LONG, JAVA_INT, JAVA_LONG);
  private static final MethodHandle ERROR_DELETE = LINKER.downcallHandle(find("ErrorDelete"), FunctionDescriptor.ofVoid(JAVA_LONG));
  private static final MethodHandle REQUEST_NEW = asked("InferenceRequestNew", JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG);
  private static final MethodHandle REQUEST_DELETE = asked("InferenceRequestDelete", JAVA_LONG);
  private static final MethodHandle ADD_INPUT =
      asked("InferenceRequestAddInput", JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG);
  private static final MethodHandle APPEND =
      asked("InferenceRequestAppendInputData", JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_LONG);
  private static final MethodHandle SET_RELEASE =
      asked("InferenceRequestSetReleaseCallback", JAVA_LONG, JAVA_LONG, JAVA_LONG);
  private static final MethodHandle SET_RESPONSE =
      asked("InferenceRequestSetResponseCallback", JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG);
  private static final MethodHandle INFER = asked("ServerInferAsync", JAVA_LONG, JAVA_LONG, JAVA_LONG);
  private static final MethodHandle RESPONSE_ERROR = asked("InferenceResponseError", JAVA_LONG);
  private static final MethodHandle RESPONSE_MODEL = asked("InferenceResponseModel", JAVA_LONG, JAVA_LONG, JAVA_LONG);
  private static final MethodHandle RESPONSE_ID = asked("InferenceResponseId", JAVA_LONG, JAVA_LONG);
  private static final MethodHandle RESPONSE_PARAMETERS = asked("InferenceResponseParameterCount", JAVA_LONG, JAVA_LONG);
  private static final MethodHandle RESPONSE_OUTPUTS = asked("InferenceResponseOutputCount", JAVA_LONG, JAVA_LONG);
  private static final MethodHandle RESPONSE_OUTPUT =
      asked(
          "InferenceResponseOutput",
          JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG);
  private static final MethodHandle RESPONSE_DELETE = asked("InferenceResponseDelete", JAVA_LONG);

  // One callback of each kind for all requests: the key tells them apart.
  private static final long RELEASED =
      callback("released", MethodType.methodType(void.class, long.class, int.class, long.class));
  private static final long ANSWERED =
      callback("answered", MethodType.methodType(void.class, long.class, int.class, long.class));
  private static final long ALLOCATOR = allocator();

  /** Places for what functions answer, one after the other. */
  private static final class Places {
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
  private static MethodHandle asked(String name, MemoryLayout... parameters) {
    return function(name, JAVA_LONG, parameters);
  }

  private static long callback(String name, MethodType type) {
    try {
      MethodHandle target = MethodHandles.lookup().findStatic(Foreign.class, name, type);
      MemoryLayout[] parameters = type.parameterList().stream().map(Foreign::layout).toArray(MemoryLayout[]::new);
      FunctionDescriptor as =
          type.returnType() == void.class ? FunctionDescriptor.ofVoid(parameters) : FunctionDescriptor.of(JAVA_LONG, parameters);
      return LINKER.upcallStub(target, as, Arena.global()).address();
    } catch (ReflectiveOperationException e) {
      throw new AssertionError(e);
    }
  }

  private static MemoryLayout layout(Class<?> type) {
    return type == int.class ? JAVA_INT : type == boolean.class ? JAVA_BOOLEAN : type == double.class ? JAVA_DOUBLE : JAVA_LONG;
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

  private static MemorySegment at(long address, long size) {
    return MemorySegment.ofAddress(address).reinterpret(size);
  }

  private static String string(long address) {
    return address == 0 ? "" : MemorySegment.ofAddress(address).reinterpret(Long.MAX_VALUE).getString(0);
  }

  private static RuntimeException broken(Throwable e) {
    if (e instanceof Error error) {
      throw error;
    }
    return e instanceof RuntimeException known ? known : new IllegalStateException(e);
  }

  private static NesoException exception(long error) {
    try {
      return new NesoException(ErrorCode.of((int) ERROR_CODE.invokeExact(error)), string((long) ERROR_MESSAGE.invokeExact(error)));
    } catch (Throwable e) {
      throw broken(e);
    }
  }

  private static void ok(long error) {
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
  private static Object rare(String name, Object... arguments) {
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

  private static void call(String name, Object... arguments) {
    ok((long) rare(name, arguments));
  }

  /** What a function makes whose first parameter is the place for it. */
  private static long made(String name, Object... arguments) {
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
  private static long answer(String name, Object... arguments) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment place = arena.allocate(JAVA_LONG);
      Object[] all = java.util.Arrays.copyOf(arguments, arguments.length + 1);
      all[arguments.length] = place.address();
      call(name, all);
      return place.get(JAVA_LONG, 0);
    }
  }

  /** A text that the library reads while the arena is open. */
  private static long text(Arena arena, String text) {
    Long kept = TEXTS.get(text);
    if (kept != null) {
      return kept;
    }
    if (TEXTS.size() >= MOST_TEXTS) {
      return arena.allocateFrom(text).address();
    }
    return TEXTS.computeIfAbsent(text, t -> Arena.global().allocateFrom(t).address());
  }

  @Override
  public long addressOf(ByteBuffer direct) {
    return MemorySegment.ofBuffer(direct.duplicate().position(0)).address();
  }

  @Override
  public long optionsNew() {
    return made("ServerOptionsNew");
  }

  @Override
  public void optionsDelete(long options) {
    call("ServerOptionsDelete", options);
  }

  @Override
  public void optionsRepository(long options, String path) {
    call("ServerOptionsSetModelRepositoryPath", options, path);
  }

  @Override
  public void optionsControl(long options, int mode) {
    call("ServerOptionsSetModelControlMode", options, mode);
  }

  @Override
  public void optionsModel(long options, String name) {
    call("ServerOptionsSetStartupModel", options, name);
  }

  @Override
  public void optionsName(long options, String name) {
    call("ServerOptionsSetServerId", options, name);
  }

  @Override
  public void optionsExitTimeout(long options, int seconds) {
    call("ServerOptionsSetExitTimeout", options, seconds);
  }

  @Override
  public void optionsLog(long options, boolean info, boolean warn, boolean error, int verbose) {
    call("ServerOptionsSetLogInfo", options, info);
    call("ServerOptionsSetLogWarn", options, warn);
    call("ServerOptionsSetLogError", options, error);
    call("ServerOptionsSetLogVerbose", options, verbose);
  }

  @Override
  public void optionsBackend(long options, String backend, String name, String value) {
    call("ServerOptionsSetBackendConfig", options, backend, name, value);
  }

  @Override
  public void optionsCache(long options, String cache, String json) {
    call("ServerOptionsSetCacheConfig", options, cache, json);
  }

  @Override
  public void optionsMetrics(long options, boolean metrics) {
    call("ServerOptionsSetMetrics", options, metrics);
  }

  @Override
  public long serverNew(long options) {
    return made("ServerNew", options);
  }

  @Override
  public void serverStop(long server) {
    call("ServerStop", server);
  }

  @Override
  public void serverDelete(long server) {
    call("ServerDelete", server);
  }

  /** Whether the lowest byte, a bool of C, is not 0. */
  private static boolean truth(long place) {
    return (place & 0xff) != 0;
  }

  @Override
  public boolean isLive(long server) {
    return truth(answer("ServerIsLive", server));
  }

  @Override
  public boolean isReady(long server) {
    return truth(answer("ServerIsReady", server));
  }

  @Override
  public boolean isReady(long server, String model, long version) {
    return truth(answer("ServerModelIsReady", server, model, version));
  }

  /** The text of an object of the library: its first byte and its size, as a function answers them. */
  private static String whole(String name, Object... arguments) {
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

  private static String message(long message) {
    try {
      return whole("MessageSerializeToJson", message);
    } finally {
      call("MessageDelete", message);
    }
  }

  @Override
  public String metadata(long server) {
    return message(answer("ServerMetadata", server));
  }

  @Override
  public String metadata(long server, String model, long version) {
    return message(answer("ServerModelMetadata", server, model, version));
  }

  @Override
  public String config(long server, String model, long version) {
    return message(answer("ServerModelConfig", server, model, version, CONFIG_VERSION));
  }

  @Override
  public String statistics(long server, String model, long version) {
    return message(answer("ServerModelStatistics", server, model, version));
  }

  @Override
  public String index(long server, boolean readyOnly) {
    return message(answer("ServerModelIndex", server, readyOnly ? READY_ONLY : 0));
  }

  @Override
  public String metrics(long server) {
    long made = answer("ServerMetrics", server);
    try {
      return whole("MetricsFormatted", made, 0);
    } finally {
      call("MetricsDelete", made);
    }
  }

  @Override
  public void load(long server, String model, Map<String, Object> parameters) {
    if (parameters.isEmpty()) {
      call("ServerLoadModel", server, model);
      return;
    }
    List<Long> made = new ArrayList<>();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment all = arena.allocate(JAVA_LONG, parameters.size());
      for (Map.Entry<String, Object> each : parameters.entrySet()) {
        long parameter;
        if (each.getValue() instanceof byte[] bytes) {
          MemorySegment content = arena.allocate(Math.max(bytes.length, 1)).copyFrom(MemorySegment.ofArray(bytes));
          parameter = (long) rare("ParameterBytesNew", each.getKey(), content.address(), (long) bytes.length);
        } else {
          parameter = (long) rare("ParameterNew", each.getKey(), STRING, (String) each.getValue());
        }
        all.setAtIndex(JAVA_LONG, made.size(), parameter);
        made.add(parameter);
      }
      call("ServerLoadModelWithParameters", server, model, all.address(), (long) made.size());
    } finally {
      // It answers nothing; what the register holds instead is not looked at.
      made.forEach(p -> rare("ParameterDelete", p));
    }
  }

  @Override
  public void unload(long server, String model, boolean dependents) {
    call(dependents ? "ServerUnloadModelAndDependents" : "ServerUnloadModel", server, model);
  }

  @Override
  public long requestNew(long server, String model, long version) {
    Places at = Places.take();
    try (Arena arena = Arena.ofConfined()) {
      ok((long) REQUEST_NEW.invokeExact(at.place(0), server, text(arena, model), version));
      return at.number(0);
    } catch (Throwable e) {
      throw broken(e);
    } finally {
      at.giveBack();
    }
  }

  @Override
  public void requestDelete(long request) {
    try {
      ok((long) REQUEST_DELETE.invokeExact(request));
    } catch (Throwable e) {
      throw broken(e);
    }
  }

  @Override
  public void id(long request, String id) {
    call("InferenceRequestSetId", request, id);
  }

  @Override
  public void flags(long request, int flags) {
    call("InferenceRequestSetFlags", request, flags);
  }

  @Override
  public void correlation(long request, long id) {
    call("InferenceRequestSetCorrelationId", request, id);
  }

  @Override
  public void correlation(long request, String id) {
    call("InferenceRequestSetCorrelationIdString", request, id);
  }

  @Override
  public void priority(long request, long priority) {
    call("InferenceRequestSetPriorityUInt64", request, priority);
  }

  @Override
  public void timeout(long request, long micros) {
    call("InferenceRequestSetTimeoutMicroseconds", request, micros);
  }

  @Override
  public void input(long request, String name, int datatype, long[] shape, long address, long byteSize) {
    Places at = Places.take();
    try (Arena arena = Arena.ofConfined()) {
      long text = text(arena, name);
      ok((long) ADD_INPUT.invokeExact(request, text, datatype, at.shape(shape), (long) shape.length));
      ok((long) APPEND.invokeExact(request, text, address, byteSize, CPU, 0L));
    } catch (Throwable e) {
      throw broken(e);
    } finally {
      at.giveBack();
    }
  }

  @Override
  public void requestedOutput(long request, String name) {
    call("InferenceRequestAddRequestedOutput", request, name);
  }

  @Override
  public void parameter(long request, String name, Object value) {
    if (value instanceof Long) {
      call("InferenceRequestSetIntParameter", request, name, value);
    } else if (value instanceof Double) {
      call("InferenceRequestSetDoubleParameter", request, name, value);
    } else if (value instanceof Boolean) {
      call("InferenceRequestSetBoolParameter", request, name, value);
    } else {
      call("InferenceRequestSetStringParameter", request, name, value);
    }
  }

  @Override
  public void send(long server, long request, long key) {
    try {
      ok((long) SET_RELEASE.invokeExact(request, RELEASED, key));
      ok((long) SET_RESPONSE.invokeExact(request, ALLOCATOR, key, ANSWERED, key));
      ok((long) INFER.invokeExact(server, request, 0L));
    } catch (Throwable e) {
      throw broken(e);
    }
  }

  @Override
  public void cancel(long request) {
    call("InferenceRequestCancel", request);
  }

  @Override
  public Answer read(long response) {
    Places at = Places.take();
    try {
      long error = (long) RESPONSE_ERROR.invokeExact(response);
      NesoException e = error == 0 ? null : exception(error); // the response keeps its error
      ok((long) RESPONSE_MODEL.invokeExact(response, at.place(0), at.place(1)));
      String model = string(at.number(0));
      long version = at.number(1);
      ok((long) RESPONSE_ID.invokeExact(response, at.place(0)));
      String id = string(at.number(0));
      List<Output> outputs = e == null ? outputs(response, at) : List.of();
      return new Answer(e, model, version, id, parameters(response, at), outputs);
    } catch (Throwable e) {
      throw broken(e);
    } finally {
      at.giveBack();
    }
  }

  private static List<Output> outputs(long response, Places at) throws Throwable {
    ok((long) RESPONSE_OUTPUTS.invokeExact(response, at.place(0)));
    int count = at.integer(0);
    List<Output> outputs = new ArrayList<>(count);
    for (int i = 0; i < count; i++) {
      // name, datatype, shape, dimensions, base, size; memory, its id and user data share the rest
      ok(
          (long)
              RESPONSE_OUTPUT.invokeExact(
                  response, i, at.place(0), at.place(1), at.place(2), at.place(3), at.place(4), at.place(5), at.place(6),
                  at.place(7), at.place(7)));
      int dimensions = (int) at.number(3);
      long[] shape = dimensions == 0 ? new long[0] : at(at.number(2), (long) dimensions * Long.BYTES).toArray(JAVA_LONG);
      outputs.add(new Output(string(at.number(0)), at.integer(1), shape, at.number(4), at.number(5)));
    }
    return outputs;
  }

  private static Map<String, Object> parameters(long response, Places at) throws Throwable {
    ok((long) RESPONSE_PARAMETERS.invokeExact(response, at.place(0)));
    int count = at.integer(0);
    if (count == 0) {
      return Map.of();
    }
    Map<String, Object> parameters = new LinkedHashMap<>();
    for (int i = 0; i < count; i++) {
      call("InferenceResponseParameter", response, i, at.place(0), at.place(1), at.place(2));
      long value = at.number(2);
      Object read =
          switch (at.integer(1)) {
            case INT -> at(value, Long.BYTES).get(JAVA_LONG, 0);
            case BOOL -> at(value, 1).get(JAVA_BYTE, 0) != 0;
            case DOUBLE -> at(value, Double.BYTES).get(JAVA_DOUBLE, 0);
            default -> string(value);
          };
      parameters.put(string(at.number(0)), read);
    }
    return Collections.unmodifiableMap(parameters);
  }

  @Override
  public void responseDelete(long response) {
    try {
      ok((long) RESPONSE_DELETE.invokeExact(response));
    } catch (Throwable e) {
      throw broken(e);
    }
  }
}
