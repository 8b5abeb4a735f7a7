package io.github.nesoserve;

import static org.bytedeco.tritonserver.global.tritonserver.*;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.Function;
import org.bytedeco.javacpp.BoolPointer;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.javacpp.DoublePointer;
import org.bytedeco.javacpp.IntPointer;
import org.bytedeco.javacpp.LongPointer;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.javacpp.PointerPointer;
import org.bytedeco.javacpp.PointerScope;
import org.bytedeco.javacpp.SizeTPointer;
import org.bytedeco.tritonserver.tritonserver.*;

/** The library by the bindings of JavaCPP. */
final class JavaCpp implements Native {
  private static final int CONFIG_VERSION = 1;

  /** Places for what reading a response answers: kept, since to make one costs more than a call. */
  private static final class Places {
    private static final ConcurrentLinkedQueue<Places> FREE = new ConcurrentLinkedQueue<>();

    final PointerPointer<Pointer> name = new PointerPointer<>(1);
    final PointerPointer<Pointer> shape = new PointerPointer<>(1);
    final PointerPointer<Pointer> base = new PointerPointer<>(1);
    final PointerPointer<Pointer> user = new PointerPointer<>(1);
    final IntPointer type = new IntPointer(1);
    final IntPointer memory = new IntPointer(1);
    final LongPointer number = new LongPointer(1);
    final LongPointer id = new LongPointer(1);
    final SizeTPointer size = new SizeTPointer(1);

    static Places take() {
      Places free = FREE.poll();
      return free == null ? new Places() : free;
    }

    void giveBack() {
      FREE.add(this);
    }
  }

  /** Texts of models and tensors as the library wants them: the same few come again and again. */
  private static final ConcurrentHashMap<String, BytePointer> TEXTS = new ConcurrentHashMap<>();

  private static final int MOST_TEXTS = 1024;

  private final JavaCppCallbacks callbacks = new JavaCppCallbacks();
  private final TRITONSERVER_ResponseAllocator allocator;

  JavaCpp() {
    try (PointerPointer<Pointer> made = new PointerPointer<>(1)) {
      ok(TRITONSERVER_ResponseAllocatorNew(made, callbacks.allocate, callbacks.keep, null));
      allocator = new TRITONSERVER_ResponseAllocator(made.get());
    }
  }

  private static NesoException exception(TRITONSERVER_Error error) {
    return new NesoException(ErrorCode.of(TRITONSERVER_ErrorCode(error)), TRITONSERVER_ErrorMessage(error));
  }

  private static void ok(TRITONSERVER_Error error) {
    if (error != null) {
      NesoException e = exception(error);
      TRITONSERVER_ErrorDelete(error);
      throw e;
    }
  }

  private static BytePointer text(String text) {
    BytePointer kept = TEXTS.get(text);
    if (kept == null) {
      kept = new BytePointer(text, StandardCharsets.UTF_8);
      if (TEXTS.size() < MOST_TEXTS) {
        TEXTS.put(text, kept);
      }
    }
    return kept;
  }

  private static String string(Pointer text) {
    return text == null ? "" : new BytePointer(text).getString(StandardCharsets.UTF_8);
  }

  /** A text of the library of that many bytes. */
  private static String string(BytePointer base, SizeTPointer size) {
    byte[] bytes = new byte[Math.toIntExact(size.get())];
    base.get(bytes);
    return new String(bytes, StandardCharsets.UTF_8);
  }

  private static TRITONSERVER_ServerOptions options(long handle) {
    return new TRITONSERVER_ServerOptions(new JavaCppCallbacks.Address(handle));
  }

  private static TRITONSERVER_Server server(long handle) {
    return new TRITONSERVER_Server(new JavaCppCallbacks.Address(handle));
  }

  private static TRITONSERVER_InferenceRequest request(long handle) {
    return new TRITONSERVER_InferenceRequest(new JavaCppCallbacks.Address(handle));
  }

  @Override
  public long addressOf(ByteBuffer direct) {
    return new Pointer(direct.duplicate().position(0)).address();
  }

  @Override
  public long optionsNew() {
    TRITONSERVER_ServerOptions made = new TRITONSERVER_ServerOptions();
    ok(TRITONSERVER_ServerOptionsNew(made));
    return made.address();
  }

  @Override
  public void optionsDelete(long options) {
    ok(TRITONSERVER_ServerOptionsDelete(options(options)));
  }

  @Override
  public void optionsRepository(long options, String path) {
    ok(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options(options), text(path)));
  }

  @Override
  public void optionsControl(long options, int mode) {
    ok(TRITONSERVER_ServerOptionsSetModelControlMode(options(options), mode));
  }

  @Override
  public void optionsModel(long options, String name) {
    ok(TRITONSERVER_ServerOptionsSetStartupModel(options(options), text(name)));
  }

  @Override
  public void optionsName(long options, String name) {
    ok(TRITONSERVER_ServerOptionsSetServerId(options(options), text(name)));
  }

  @Override
  public void optionsExitTimeout(long options, int seconds) {
    ok(TRITONSERVER_ServerOptionsSetExitTimeout(options(options), seconds));
  }

  @Override
  public void optionsLog(long options, boolean info, boolean warn, boolean error, int verbose) {
    ok(TRITONSERVER_ServerOptionsSetLogInfo(options(options), info));
    ok(TRITONSERVER_ServerOptionsSetLogWarn(options(options), warn));
    ok(TRITONSERVER_ServerOptionsSetLogError(options(options), error));
    ok(TRITONSERVER_ServerOptionsSetLogVerbose(options(options), verbose));
  }

  @Override
  public void optionsBackend(long options, String backend, String name, String value) {
    ok(TRITONSERVER_ServerOptionsSetBackendConfig(options(options), text(backend), text(name), text(value)));
  }

  @Override
  public void optionsCache(long options, String cache, String json) {
    ok(TRITONSERVER_ServerOptionsSetCacheConfig(options(options), text(cache), text(json)));
  }

  @Override
  public void optionsMetrics(long options, boolean metrics) {
    ok(TRITONSERVER_ServerOptionsSetMetrics(options(options), metrics));
  }

  @Override
  public long serverNew(long options) {
    TRITONSERVER_Server made = new TRITONSERVER_Server();
    ok(TRITONSERVER_ServerNew(made, options(options)));
    return made.address();
  }

  @Override
  public void serverStop(long server) {
    ok(TRITONSERVER_ServerStop(server(server)));
  }

  @Override
  public void serverDelete(long server) {
    ok(TRITONSERVER_ServerDelete(server(server)));
  }

  @Override
  public boolean isLive(long server) {
    boolean[] is = new boolean[1];
    ok(TRITONSERVER_ServerIsLive(server(server), is));
    return is[0];
  }

  @Override
  public boolean isReady(long server) {
    boolean[] is = new boolean[1];
    ok(TRITONSERVER_ServerIsReady(server(server), is));
    return is[0];
  }

  @Override
  public boolean isReady(long server, String model, long version) {
    try (BoolPointer is = new BoolPointer(1)) {
      ok(TRITONSERVER_ServerModelIsReady(server(server), text(model), version, is));
      return is.get();
    }
  }

  /** The text of a message that a function makes. */
  private static String message(Function<TRITONSERVER_Message, TRITONSERVER_Error> make) {
    TRITONSERVER_Message made = new TRITONSERVER_Message();
    ok(make.apply(made));
    try (SizeTPointer size = new SizeTPointer(1)) {
      BytePointer base = new BytePointer();
      ok(TRITONSERVER_MessageSerializeToJson(made, base, size));
      return string(base, size);
    } finally {
      ok(TRITONSERVER_MessageDelete(made));
    }
  }

  @Override
  public String metadata(long server) {
    return message(m -> TRITONSERVER_ServerMetadata(server(server), m));
  }

  @Override
  public String metadata(long server, String model, long version) {
    return message(m -> TRITONSERVER_ServerModelMetadata(server(server), text(model), version, m));
  }

  @Override
  public String config(long server, String model, long version) {
    return message(m -> TRITONSERVER_ServerModelConfig(server(server), text(model), version, CONFIG_VERSION, m));
  }

  @Override
  public String statistics(long server, String model, long version) {
    return message(m -> TRITONSERVER_ServerModelStatistics(server(server), text(model), version, m));
  }

  @Override
  public String index(long server, boolean readyOnly) {
    return message(m -> TRITONSERVER_ServerModelIndex(server(server), readyOnly ? TRITONSERVER_INDEX_FLAG_READY : 0, m));
  }

  @Override
  public String metrics(long server) {
    TRITONSERVER_Metrics made = new TRITONSERVER_Metrics();
    ok(TRITONSERVER_ServerMetrics(server(server), made));
    try (SizeTPointer size = new SizeTPointer(1)) {
      BytePointer base = new BytePointer();
      ok(TRITONSERVER_MetricsFormatted(made, TRITONSERVER_METRIC_PROMETHEUS, base, size));
      return string(base, size);
    } finally {
      ok(TRITONSERVER_MetricsDelete(made));
    }
  }

  @Override
  public void load(long server, String model, Map<String, Object> parameters) {
    if (parameters.isEmpty()) {
      ok(TRITONSERVER_ServerLoadModel(server(server), text(model)));
      return;
    }
    List<TRITONSERVER_Parameter> made = new ArrayList<>();
    try (PointerScope scope = new PointerScope()) {
      PointerPointer<Pointer> all = new PointerPointer<>(parameters.size());
      for (Map.Entry<String, Object> each : parameters.entrySet()) {
        TRITONSERVER_Parameter parameter;
        if (each.getValue() instanceof byte[] bytes) {
          BytePointer content = new BytePointer(Math.max(bytes.length, 1)).put(bytes, 0, bytes.length);
          parameter = TRITONSERVER_ParameterBytesNew(new BytePointer(each.getKey(), StandardCharsets.UTF_8), content, bytes.length);
        } else {
          BytePointer content = new BytePointer((String) each.getValue(), StandardCharsets.UTF_8);
          parameter =
              TRITONSERVER_ParameterNew(
                  new BytePointer(each.getKey(), StandardCharsets.UTF_8), TRITONSERVER_PARAMETER_STRING, content);
        }
        all.put(made.size(), parameter);
        made.add(parameter);
      }
      ok(TRITONSERVER_ServerLoadModelWithParameters(server(server), model, all, made.size()));
    } finally {
      made.forEach(p -> TRITONSERVER_ParameterDelete(p));
    }
  }

  @Override
  public void unload(long server, String model, boolean dependents) {
    ok(
        dependents
            ? TRITONSERVER_ServerUnloadModelAndDependents(server(server), text(model))
            : TRITONSERVER_ServerUnloadModel(server(server), text(model)));
  }

  @Override
  public long requestNew(long server, String model, long version) {
    TRITONSERVER_InferenceRequest made = new TRITONSERVER_InferenceRequest();
    ok(TRITONSERVER_InferenceRequestNew(made, server(server), text(model), version));
    return made.address();
  }

  @Override
  public void requestDelete(long request) {
    ok(TRITONSERVER_InferenceRequestDelete(request(request)));
  }

  @Override
  public void id(long request, String id) {
    try (BytePointer text = new BytePointer(id, StandardCharsets.UTF_8)) {
      ok(TRITONSERVER_InferenceRequestSetId(request(request), text));
    }
  }

  @Override
  public void flags(long request, int flags) {
    ok(TRITONSERVER_InferenceRequestSetFlags(request(request), flags));
  }

  @Override
  public void correlation(long request, long id) {
    ok(TRITONSERVER_InferenceRequestSetCorrelationId(request(request), id));
  }

  @Override
  public void correlation(long request, String id) {
    try (BytePointer text = new BytePointer(id, StandardCharsets.UTF_8)) {
      ok(TRITONSERVER_InferenceRequestSetCorrelationIdString(request(request), text));
    }
  }

  @Override
  public void priority(long request, long priority) {
    ok(TRITONSERVER_InferenceRequestSetPriorityUInt64(request(request), priority));
  }

  @Override
  public void timeout(long request, long micros) {
    ok(TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(request(request), micros));
  }

  @Override
  public void input(long request, String name, int datatype, long[] shape, long address, long byteSize) {
    TRITONSERVER_InferenceRequest to = request(request);
    ok(TRITONSERVER_InferenceRequestAddInput(to, text(name), datatype, shape, shape.length));
    ok(
        TRITONSERVER_InferenceRequestAppendInputData(
            to, text(name), new JavaCppCallbacks.Address(address), byteSize, TRITONSERVER_MEMORY_CPU, 0));
  }

  @Override
  public void requestedOutput(long request, String name) {
    ok(TRITONSERVER_InferenceRequestAddRequestedOutput(request(request), text(name)));
  }

  @Override
  public void parameter(long request, String name, Object value) {
    TRITONSERVER_InferenceRequest to = request(request);
    if (value instanceof Long number) {
      ok(TRITONSERVER_InferenceRequestSetIntParameter(to, text(name), number));
    } else if (value instanceof Double number) {
      ok(TRITONSERVER_InferenceRequestSetDoubleParameter(to, text(name), number));
    } else if (value instanceof Boolean is) {
      ok(TRITONSERVER_InferenceRequestSetBoolParameter(to, text(name), is));
    } else {
      try (BytePointer text = new BytePointer((String) value, StandardCharsets.UTF_8)) {
        ok(TRITONSERVER_InferenceRequestSetStringParameter(to, text(name), text));
      }
    }
  }

  @Override
  public void send(long server, long request, long key) {
    TRITONSERVER_InferenceRequest sent = request(request);
    Pointer user = new JavaCppCallbacks.Address(key);
    ok(TRITONSERVER_InferenceRequestSetReleaseCallback(sent, callbacks.released, user));
    ok(TRITONSERVER_InferenceRequestSetResponseCallback(sent, allocator, user, callbacks.answered, user));
    ok(TRITONSERVER_ServerInferAsync(server(server), sent, null));
  }

  @Override
  public void cancel(long request) {
    ok(TRITONSERVER_InferenceRequestCancel(request(request)));
  }

  @Override
  public Answer read(long handle) {
    TRITONSERVER_InferenceResponse response = new TRITONSERVER_InferenceResponse(new JavaCppCallbacks.Address(handle));
    TRITONSERVER_Error error = TRITONSERVER_InferenceResponseError(response);
    NesoException e = error == null ? null : exception(error); // the response keeps its error
    Places at = Places.take();
    try {
      ok(TRITONSERVER_InferenceResponseModel(response, at.name, at.number));
      String model = string(at.name.get());
      long version = at.number.get();
      ok(TRITONSERVER_InferenceResponseId(response, at.name));
      String id = string(at.name.get());
      List<Output> outputs = e == null ? outputs(response, at) : List.of();
      return new Answer(e, model, version, id, parameters(response, at), outputs);
    } finally {
      at.giveBack();
    }
  }

  private static List<Output> outputs(TRITONSERVER_InferenceResponse response, Places at) {
    ok(TRITONSERVER_InferenceResponseOutputCount(response, at.type));
    int count = at.type.get();
    List<Output> outputs = new ArrayList<>(count);
    for (int i = 0; i < count; i++) {
      ok(
          TRITONSERVER_InferenceResponseOutput(
              response, i, at.name, at.type, at.shape, at.number, at.base, at.size, at.memory, at.id, at.user));
      long[] shape = new long[(int) at.number.get()];
      if (shape.length > 0) {
        new LongPointer(at.shape.get()).get(shape);
      }
      Pointer base = at.base.get();
      outputs.add(new Output(string(at.name.get()), at.type.get(), shape, base == null ? 0 : base.address(), at.size.get()));
    }
    return outputs;
  }

  private static Map<String, Object> parameters(TRITONSERVER_InferenceResponse response, Places at) {
    ok(TRITONSERVER_InferenceResponseParameterCount(response, at.type));
    int count = at.type.get();
    if (count == 0) {
      return Map.of();
    }
    Map<String, Object> parameters = new LinkedHashMap<>();
    for (int i = 0; i < count; i++) {
      ok(TRITONSERVER_InferenceResponseParameter(response, i, at.name, at.type, at.base));
      Pointer value = at.base.get();
      int type = at.type.get();
      Object read;
      if (type == TRITONSERVER_PARAMETER_INT) {
        read = new LongPointer(value).get();
      } else if (type == TRITONSERVER_PARAMETER_BOOL) {
        read = new BytePointer(value).get() != 0;
      } else if (type == TRITONSERVER_PARAMETER_DOUBLE) {
        read = new DoublePointer(value).get();
      } else {
        read = string(value);
      }
      parameters.put(string(at.name.get()), read);
    }
    return Collections.unmodifiableMap(parameters);
  }

  @Override
  public void responseDelete(long response) {
    ok(TRITONSERVER_InferenceResponseDelete(new TRITONSERVER_InferenceResponse(new JavaCppCallbacks.Address(response))));
  }
}
