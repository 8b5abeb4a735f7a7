package io.github.nesoserve;

import static org.bytedeco.tritonserver.global.tritonserver.*;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.javacpp.FloatPointer;
import org.bytedeco.javacpp.IntPointer;
import org.bytedeco.javacpp.LongPointer;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.javacpp.PointerPointer;
import org.bytedeco.javacpp.SizeTPointer;
import org.bytedeco.tritonserver.tritonserver.*;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/**
 * Maven's {@code org.bytedeco:tritonserver} over this library, as a program written for Triton uses
 * it: nothing of ours between.
 */
@SuppressWarnings("rawtypes") // as the bindings declare their callbacks
class BindingsTest {
  private static final long PATIENCE_S = 120;

  private static Repository repository;
  private static TRITONSERVER_Server server;
  private static TRITONSERVER_ResponseAllocator allocator;

  // A function pointer lives as long as the program may be called by it.
  private static final TRITONSERVER_ResponseAllocatorAllocFn_t ALLOCATE =
      new TRITONSERVER_ResponseAllocatorAllocFn_t() {
        @Override
        public TRITONSERVER_Error call(
            TRITONSERVER_ResponseAllocator a,
            String name,
            long size,
            int type,
            long id,
            Pointer user,
            PointerPointer buffer,
            PointerPointer bufferUser,
            IntPointer gotType,
            LongPointer gotId) {
          buffer.put(0, Pointer.malloc(Math.max(size, 1)));
          gotType.put(0, TRITONSERVER_MEMORY_CPU);
          gotId.put(0, 0);
          return null;
        }
      };
  private static final TRITONSERVER_ResponseAllocatorReleaseFn_t TAKE_BACK =
      new TRITONSERVER_ResponseAllocatorReleaseFn_t() {
        @Override
        public TRITONSERVER_Error call(
            TRITONSERVER_ResponseAllocator a, Pointer buffer, Pointer user, long size, int type, long id) {
          Pointer.free(buffer);
          return null;
        }
      };
  private static final BlockingQueue<Integer> RELEASED = new LinkedBlockingQueue<>();
  private static final TRITONSERVER_InferenceRequestReleaseFn_t RELEASE =
      new TRITONSERVER_InferenceRequestReleaseFn_t() {
        @Override
        public void call(TRITONSERVER_InferenceRequest request, int flags, Pointer user) {
          RELEASED.add(flags);
        }
      };

  /** A response, or null where the last call had none, and its flags. */
  private record Answer(TRITONSERVER_InferenceResponse response, int flags) {}

  private static final BlockingQueue<Answer> ANSWERS = new LinkedBlockingQueue<>();
  private static final TRITONSERVER_InferenceResponseCompleteFn_t COMPLETE =
      new TRITONSERVER_InferenceResponseCompleteFn_t() {
        @Override
        public void call(TRITONSERVER_InferenceResponse response, int flags, Pointer user) {
          ANSWERS.add(new Answer(response, flags));
        }
      };

  private static void ok(TRITONSERVER_Error error) {
    if (error != null) {
      String message = TRITONSERVER_ErrorCodeString(error) + ": " + TRITONSERVER_ErrorMessage(error);
      TRITONSERVER_ErrorDelete(error);
      throw new AssertionError(message);
    }
  }

  @BeforeAll
  static void start() {
    repository = new Repository();
    IntPointer major = new IntPointer(1);
    IntPointer minor = new IntPointer(1);
    ok(TRITONSERVER_ApiVersion(major, minor));
    assertEquals(TRITONSERVER_API_VERSION_MAJOR, major.get());
    assertTrue(minor.get() >= TRITONSERVER_API_VERSION_MINOR, "minor version " + minor.get());

    PointerPointer<Pointer> place = new PointerPointer<>(1);
    ok(TRITONSERVER_ServerOptionsNew(place));
    TRITONSERVER_ServerOptions options = new TRITONSERVER_ServerOptions(place.get());
    ok(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, repository.path.toString()));
    ok(TRITONSERVER_ServerOptionsSetModelControlMode(options, TRITONSERVER_MODEL_CONTROL_EXPLICIT));
    ok(TRITONSERVER_ServerOptionsSetStartupModel(options, "identity"));
    ok(TRITONSERVER_ServerOptionsSetLogInfo(options, false));
    ok(TRITONSERVER_ServerNew(place, options));
    ok(TRITONSERVER_ServerOptionsDelete(options));
    server = new TRITONSERVER_Server(place.get());
    ok(TRITONSERVER_ResponseAllocatorNew(place, ALLOCATE, TAKE_BACK, null));
    allocator = new TRITONSERVER_ResponseAllocator(place.get());
  }

  @AfterAll
  static void stop() {
    ok(TRITONSERVER_ServerStop(server));
    ok(TRITONSERVER_ServerDelete(server));
    ok(TRITONSERVER_ResponseAllocatorDelete(allocator));
    repository.close();
  }

  private static TRITONSERVER_InferenceRequest request(String model) {
    PointerPointer<Pointer> place = new PointerPointer<>(1);
    ok(TRITONSERVER_InferenceRequestNew(place, server, model, -1));
    TRITONSERVER_InferenceRequest request = new TRITONSERVER_InferenceRequest(place.get());
    ok(TRITONSERVER_InferenceRequestSetReleaseCallback(request, RELEASE, null));
    ok(TRITONSERVER_InferenceRequestSetResponseCallback(request, allocator, null, COMPLETE, null));
    return request;
  }

  private static void input(TRITONSERVER_InferenceRequest request, String name, int type, long n, Pointer data, long size) {
    ok(TRITONSERVER_InferenceRequestAddInput(request, name, type, new LongPointer(new long[] {n}), 1));
    ok(TRITONSERVER_InferenceRequestAppendInputData(request, name, data, size, TRITONSERVER_MEMORY_CPU, 0));
  }

  private static Answer answer() throws InterruptedException {
    Answer answer = ANSWERS.poll(PATIENCE_S, TimeUnit.SECONDS);
    assertNotNull(answer, "no response");
    return answer;
  }

  private static void released(TRITONSERVER_InferenceRequest request) throws InterruptedException {
    assertEquals(TRITONSERVER_REQUEST_RELEASE_ALL, RELEASED.poll(PATIENCE_S, TimeUnit.SECONDS));
    ok(TRITONSERVER_InferenceRequestDelete(request));
  }

  /** The bytes of the first output, where the server has put them, if it is as named. */
  private static ByteBuffer output(TRITONSERVER_InferenceResponse response, String wantName, int wantType) {
    ok(TRITONSERVER_InferenceResponseError(response));
    PointerPointer<Pointer> name = new PointerPointer<>(1);
    PointerPointer<Pointer> shape = new PointerPointer<>(1);
    PointerPointer<Pointer> base = new PointerPointer<>(1);
    IntPointer type = new IntPointer(1);
    LongPointer rank = new LongPointer(1);
    SizeTPointer size = new SizeTPointer(1);
    IntPointer memory = new IntPointer(1);
    LongPointer id = new LongPointer(1);
    ok(
        TRITONSERVER_InferenceResponseOutput(
            response, 0, name, type, shape, rank, base, size, memory, id, new PointerPointer<>(1)));
    assertEquals(wantName, new BytePointer(name.get()).getString());
    assertEquals(wantType, type.get());
    assertEquals(1, rank.get());
    assertEquals(TRITONSERVER_MEMORY_CPU, memory.get());
    assertEquals(size.get(), 4 * new LongPointer(shape.get()).get());
    return new BytePointer(base.get()).capacity(size.get()).asByteBuffer().order(ByteOrder.nativeOrder());
  }

  private static float[] floats(TRITONSERVER_InferenceResponse response) {
    FloatBuffer buffer = output(response, "Y", TRITONSERVER_TYPE_FP32).asFloatBuffer();
    float[] values = new float[buffer.remaining()];
    buffer.get(values);
    return values;
  }

  private float[] infer(FloatPointer data, long n) throws InterruptedException {
    TRITONSERVER_InferenceRequest request = request("identity");
    input(request, "X", TRITONSERVER_TYPE_FP32, n, data, 4 * n);
    ok(TRITONSERVER_ServerInferAsync(server, request, null));
    Answer answer = answer();
    assertEquals(TRITONSERVER_RESPONSE_COMPLETE_FINAL, answer.flags);
    float[] values = floats(answer.response);
    ok(TRITONSERVER_InferenceResponseDelete(answer.response));
    released(request);
    return values;
  }

  @Test
  void heap() throws Exception {
    float[] values = {1, 2.5f, -3};
    assertArrayEquals(values, infer(new FloatPointer(values), 3));
  }

  @Test
  void direct() throws Exception {
    int n = 1 << 18;
    ByteBuffer bytes = ByteBuffer.allocateDirect(4 * n).order(ByteOrder.nativeOrder());
    float[] want = new float[n];
    for (int i = 0; i < n; i++) {
      want[i] = i;
      bytes.putFloat(4 * i, i);
    }
    assertArrayEquals(want, infer(new FloatPointer(bytes.asFloatBuffer()), n));
  }

  @Test
  void stream() throws Exception {
    ok(TRITONSERVER_ServerLoadModel(server, "repeat"));
    TRITONSERVER_InferenceRequest request = request("repeat");
    IntPointer in = new IntPointer(7, 8, 9);
    IntPointer delay = new IntPointer(0, 0, 0);
    IntPointer wait = new IntPointer(new int[] {0});
    input(request, "IN", TRITONSERVER_TYPE_INT32, 3, in, 12);
    input(request, "DELAY", TRITONSERVER_TYPE_UINT32, 3, delay, 12);
    input(request, "WAIT", TRITONSERVER_TYPE_UINT32, 1, wait, 4);
    ok(TRITONSERVER_ServerInferAsync(server, request, null));
    List<Integer> got = new ArrayList<>();
    for (boolean last = false; !last; ) {
      Answer answer = answer();
      last = (answer.flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0;
      if (answer.response != null) {
        got.add(output(answer.response, "OUT", TRITONSERVER_TYPE_INT32).getInt(0));
        ok(TRITONSERVER_InferenceResponseDelete(answer.response));
      }
    }
    assertEquals(List.of(7, 8, 9), got);
    released(request);
    ok(TRITONSERVER_ServerUnloadModel(server, "repeat"));
  }

  @Test
  void metrics() throws Exception {
    infer(new FloatPointer(1f), 1);
    PointerPointer<Pointer> place = new PointerPointer<>(1);
    ok(TRITONSERVER_ServerMetrics(server, place));
    TRITONSERVER_Metrics metrics = new TRITONSERVER_Metrics(place.get());
    PointerPointer<Pointer> base = new PointerPointer<>(1);
    SizeTPointer size = new SizeTPointer(1);
    ok(TRITONSERVER_MetricsFormatted(metrics, TRITONSERVER_METRIC_PROMETHEUS, base, size));
    String text = new BytePointer(base.get()).limit(size.get()).getString();
    ok(TRITONSERVER_MetricsDelete(metrics));
    assertTrue(text.contains("nv_inference_request_success{model=\"identity\""), text);
  }

  @Test
  void metadata() {
    boolean[] is = new boolean[1];
    ok(TRITONSERVER_ServerIsLive(server, is));
    assertTrue(is[0]);
    ok(TRITONSERVER_ServerModelIsReady(server, "identity", -1, is));
    assertTrue(is[0]);
    PointerPointer<Pointer> place = new PointerPointer<>(1);
    ok(TRITONSERVER_ServerModelMetadata(server, "identity", -1, place));
    TRITONSERVER_Message message = new TRITONSERVER_Message(place.get());
    PointerPointer<Pointer> base = new PointerPointer<>(1);
    SizeTPointer size = new SizeTPointer(1);
    ok(TRITONSERVER_MessageSerializeToJson(message, base, size));
    String json = new BytePointer(base.get()).limit(size.get()).getString();
    ok(TRITONSERVER_MessageDelete(message));
    assertTrue(json.startsWith("{\"name\":\"identity\",\"versions\":[\"1\"]"), json);
  }

  @Test
  void errors() {
    PointerPointer<Pointer> place = new PointerPointer<>(1);
    TRITONSERVER_Error error = TRITONSERVER_InferenceRequestNew(place, server, "nobody", -1);
    assertNotNull(error);
    assertEquals(TRITONSERVER_ERROR_NOT_FOUND, TRITONSERVER_ErrorCode(error));
    String message = TRITONSERVER_ErrorMessage(error);
    TRITONSERVER_ErrorDelete(error);
    assertTrue(message.contains("nobody"), message);
    assertNull(ANSWERS.peek());
  }
}
