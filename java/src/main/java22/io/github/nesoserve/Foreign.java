package io.github.nesoserve;

import static io.github.nesoserve.ForeignCallbacks.ALLOCATOR;
import static io.github.nesoserve.ForeignCallbacks.ANSWERED;
import static io.github.nesoserve.ForeignCallbacks.CPU;
import static io.github.nesoserve.ForeignCallbacks.RELEASED;
import static io.github.nesoserve.ForeignLibrary.answer;
import static io.github.nesoserve.ForeignLibrary.asked;
import static io.github.nesoserve.ForeignLibrary.at;
import static io.github.nesoserve.ForeignLibrary.broken;
import static io.github.nesoserve.ForeignLibrary.call;
import static io.github.nesoserve.ForeignLibrary.exception;
import static io.github.nesoserve.ForeignLibrary.made;
import static io.github.nesoserve.ForeignLibrary.ok;
import static io.github.nesoserve.ForeignLibrary.rare;
import static io.github.nesoserve.ForeignLibrary.string;
import static io.github.nesoserve.ForeignLibrary.text;
import static io.github.nesoserve.ForeignLibrary.whole;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_DOUBLE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.github.nesoserve.ForeignLibrary.Places;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The library by the foreign function interface of Java 22. Pointers are numbers here: what is an
 * address to C is a {@code long}, which has the same size.
 */
final class Foreign implements Native {
  private static final int CONFIG_VERSION = 1;
  private static final int READY_ONLY = 1;
  private static final int STRING = 0;
  private static final int INT = 1;
  private static final int BOOL = 2;
  private static final int DOUBLE = 3;

  // What a request needs has a handle of its own, which the compiler sees through.
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
