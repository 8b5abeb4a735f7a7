package io.github.nesoserve;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Flow;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(value = 120, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class NesoServerTest {
  private static final long PATIENCE_S = 60;
  private static final int QUICK_MS = 1;

  private static Repository repository;
  private static NesoServer server;

  @BeforeAll
  static void start() {
    repository = new Repository();
    server = options().start();
  }

  @AfterAll
  static void stop() {
    server.close();
    server.close();
    assertThrows(IllegalStateException.class, server::isLive);
    repository.close();
  }

  /** Whatever a test does, the library lets go of everything in the end. */
  @AfterEach
  void nothingStays() throws InterruptedException {
    for (int i = 0; Flight.count() != 0; i++) {
      assertTrue(i < PATIENCE_S * 1000, Flight.count() + " requests stay in flight");
      Thread.sleep(QUICK_MS);
    }
  }

  private static NesoServer.Builder options() {
    return NesoServer.builder().repository(repository.path).model("identity").model("texts").model("repeat");
  }

  private static Request identity(Tensor x) {
    return Request.to("identity").input("X", x).build();
  }

  /** A request to the decoupled model, whose n responses come behind these milliseconds. */
  private static Request repeat(int... delays) {
    int[] in = new int[delays.length];
    Arrays.setAll(in, i -> i);
    return Request.to("repeat")
        .input("IN", Tensor.of(in))
        .input("DELAY", Tensor.of(Datatype.UINT32, delays))
        .input("WAIT", Tensor.of(Datatype.UINT32, new int[1]))
        .build();
  }

  /** What a subscriber is told, in words. */
  private static class Told implements Flow.Subscriber<Response> {
    final BlockingQueue<String> words = new LinkedBlockingQueue<>();
    final CountDownLatch subscribed = new CountDownLatch(1);
    volatile Flow.Subscription subscription;
    volatile Throwable error;
    private final long ask;

    Told(long ask) {
      this.ask = ask;
    }

    @Override
    public void onSubscribe(Flow.Subscription s) {
      subscription = s;
      if (ask > 0) {
        s.request(ask);
      }
      subscribed.countDown();
    }

    @Override
    public void onNext(Response response) {
      try (response) {
        words.add(Integer.toString(response.output("OUT").toInts()[0]));
      }
    }

    @Override
    public void onError(Throwable e) {
      error = e;
      words.add("error");
    }

    @Override
    public void onComplete() {
      words.add("complete");
    }

    List<String> take(int n) throws InterruptedException {
      List<String> taken = new ArrayList<>();
      for (int i = 0; i < n; i++) {
        String word = words.poll(PATIENCE_S, TimeUnit.SECONDS);
        assertTrue(word != null, "after " + taken + " nothing came");
        taken.add(word);
      }
      return taken;
    }
  }

  @Test
  void heap() throws Exception {
    float[] values = {1, 2.5f, -3};
    try (Tensor x = Tensor.of(values);
        Response response = server.infer(Request.to("identity").input("X", x).output("Y").id("seven").build())) {
      assertEquals("identity", response.model());
      assertEquals(1, response.version());
      assertEquals("seven", response.id());
      assertEquals(List.of("Y"), List.copyOf(response.outputs().keySet()));
      Tensor y = response.output("Y");
      assertEquals(Datatype.FP32, y.datatype());
      assertArrayEquals(new long[] {3}, y.shape());
      assertArrayEquals(values, y.toFloats());
      assertThrows(NoSuchElementException.class, () -> response.output("Z"));
    }
  }

  @Test
  void direct() throws Exception {
    int n = 1 << 18;
    ByteBuffer bytes = ByteBuffer.allocateDirect(4 * n + 8).order(ByteOrder.nativeOrder());
    for (int i = 0; i <= n; i++) {
      bytes.putFloat(4 * i, i);
    }
    // From the buffer's position to its limit: the second element to the last.
    bytes.position(4).limit(4 * (n + 1));
    try (Tensor x = Tensor.wrap(Datatype.FP32, bytes, n);
        Response response = server.infer(identity(x))) {
      assertEquals(4, bytes.position());
      ByteBuffer y = response.output("Y").buffer();
      assertEquals(4 * n, y.remaining());
      assertTrue(y.isReadOnly());
      for (int i = 0; i < n; i++) {
        assertEquals(i + 1, y.getFloat());
      }
      assertEquals(bytes.slice(), x.buffer());
    }
  }

  @Test
  void everyDatatype() {
    assertArrayEquals(new double[] {1, 2}, Tensor.of(new double[] {1, 2}).toDoubles());
    assertArrayEquals(new int[] {1, -2}, Tensor.of(new int[] {1, -2}).toInts());
    assertArrayEquals(new long[] {1, -2}, Tensor.of(Datatype.UINT64, new long[] {1, -2}).toLongs());
    assertArrayEquals(new short[] {1, -2}, Tensor.of(Datatype.FP16, new short[] {1, -2}).toShorts());
    assertArrayEquals(new byte[] {1, -2}, Tensor.of(Datatype.INT8, new byte[] {1, -2}).toByteArray());
    assertArrayEquals(new boolean[] {true, false}, Tensor.of(new boolean[] {true, false}).toBooleans());
    assertArrayEquals(new long[] {2, 0, 3}, Tensor.of(new int[0], 2, 0, 3).shape());
    Tensor wrapped = Tensor.wrap(Datatype.BF16, ByteBuffer.wrap(new byte[] {1, 2, 3, 4}, 2, 2));
    assertEquals("Tensor[BF16 [], 2 bytes]", wrapped.toString());
  }

  @Test
  void texts() throws Exception {
    String[] words = {"", "a", "größer", "日本"};
    try (Tensor x = Tensor.of(words, 4);
        Response response = server.infer(Request.to("texts").input("X", x).build())) {
      assertArrayEquals(words, response.output("Y").toStrings());
    }
  }

  @Test
  void empty() throws Exception {
    try (Tensor x = Tensor.of(new float[0]);
        Response response = server.infer(identity(x))) {
      assertArrayEquals(new float[0], response.output("Y").toFloats());
    }
  }

  @Test
  void badTensors() {
    assertMessage("the shape [2, 2] has 4 elements, there are 3 values", () -> Tensor.of(new float[3], 2, 2));
    assertMessage("the shape [-1] has a dimension below 0", () -> Tensor.of(new float[3], -1));
    assertMessage("FP32 [3] needs 12 bytes, the buffer has 11", () -> Tensor.wrap(Datatype.FP32, ByteBuffer.allocate(11), 3));
    assertMessage("int[] can be a tensor of [INT32, UINT32], not of FP32", () -> Tensor.of(Datatype.FP32, new int[1]));
    assertMessage("the shape [65536, 65536] has too many elements", () -> Tensor.of(new float[1], 65536, 65536));
    ByteBuffer text = ByteBuffer.allocate(6).order(ByteOrder.LITTLE_ENDIAN).putInt(0, 3);
    assertMessage("element 0 of BYTES ends behind the buffer's 6 bytes", () -> Tensor.wrap(Datatype.BYTES, text, 1));
    text.putInt(0, -1);
    assertMessage("element 0 of BYTES ends behind the buffer's 6 bytes", () -> Tensor.wrap(Datatype.BYTES, text, 1));
    text.putInt(0, 2);
    assertMessage("the buffer has 1 elements of BYTES, the shape has 2", () -> Tensor.wrap(Datatype.BYTES, text, 2));
    Tensor closed = Tensor.of(new float[1]);
    closed.close();
    closed.close();
    assertThrows(IllegalStateException.class, closed::toFloats);
    assertThrows(IllegalStateException.class, closed::buffer);
    assertThrows(IllegalStateException.class, () -> server.infer(identity(closed)));
    assertThrows(IllegalStateException.class, () -> Tensor.of(new float[1]).toInts());
  }

  private static void assertMessage(String want, Runnable action) {
    assertEquals(want, assertThrows(IllegalArgumentException.class, action::run).getMessage());
  }

  @Test
  void badRequests() {
    Request.Builder builder = Request.to("identity").input("X", Tensor.of(new float[1]));
    assertMessage("the request has the input X already", () -> builder.input("X", Tensor.of(new float[1])));
    assertMessage("a version is 1 or more, not 0", () -> builder.version(0));
    assertMessage("id: a text with the character 0: a?b", () -> builder.id("a\0b"));
    assertThrows(IllegalArgumentException.class, () -> builder.parameter("p", new Object()));
    assertThrows(IllegalArgumentException.class, () -> builder.timeout(Duration.ZERO));
    assertThrows(IllegalArgumentException.class, () -> builder.priority(-1));
    assertThrows(IllegalArgumentException.class, () -> builder.sequence(0, true, false));
    assertThrows(IllegalStateException.class, () -> NesoServer.builder().start());
  }

  @Test
  void errors() {
    NesoException none = assertThrows(NesoException.class, () -> server.infer(Request.to("nobody").build()));
    assertEquals(ErrorCode.NOT_FOUND, none.code());
    assertTrue(none.getMessage().contains("nobody"), none.getMessage());
    Request wrong = Request.to("identity").input("X", Tensor.of(new int[1])).build();
    assertEquals(ErrorCode.INVALID_ARG, assertThrows(NesoException.class, () -> server.infer(wrong)).code());
    Request version = Request.to("identity").version(7).input("X", Tensor.of(new float[1])).build();
    CompletionException later = assertThrows(CompletionException.class, () -> server.inferAsync(version).join());
    assertEquals(NesoException.class, later.getCause().getClass());
    NesoException start =
        assertThrows(NesoException.class, () -> NesoServer.builder().repository(repository.path).model("größer").start());
    assertTrue(start.getMessage().length() > 0);
    NesoException many = assertThrows(NesoException.class, () -> server.infer(repeat(0, 0)));
    assertEquals("model repeat answered 2 responses to a request for one: use stream", many.getMessage());
  }

  @Test
  void async() throws Exception {
    List<CompletableFuture<float[]>> futures = new ArrayList<>();
    for (int i = 0; i < 200; i++) {
      Tensor x = Tensor.of(new float[] {i});
      CompletableFuture<Response> future = server.inferAsync(identity(x));
      x.close(); // the request holds it
      futures.add(
          future.thenApply(
              response -> {
                try (response) {
                  return response.output("Y").toFloats();
                }
              }));
    }
    for (int i = 0; i < futures.size(); i++) {
      assertArrayEquals(new float[] {i}, futures.get(i).get());
    }
  }

  @Test
  void futuresRunOnTheExecutor() throws Exception {
    BlockingQueue<String> threads = new LinkedBlockingQueue<>();
    try (NesoServer mine = options().executor(task -> new Thread(task, "mine").start()).start();
        Tensor x = Tensor.of(new float[1])) {
      CountDownLatch late = new CountDownLatch(1);
      CompletableFuture<Response> future = mine.inferAsync(repeat(QUICK_MS, QUICK_MS));
      CompletableFuture<?> seen = future.whenComplete((r, e) -> threads.add(Thread.currentThread().getName()));
      late.countDown();
      assertThrows(ExecutionException.class, seen::get);
      String thread = threads.poll(PATIENCE_S, TimeUnit.SECONDS);
      assertTrue(thread.equals("mine") || thread.equals(Thread.currentThread().getName()), thread);
    }
  }

  @Test
  void cancelledFuture() {
    CompletableFuture<Response> future = server.inferAsync(repeat(Repository.HOUR_MS));
    assertTrue(future.cancel(true));
    assertThrows(CancellationException.class, future::join);
    CompletableFuture<Response> timed = server.inferAsync(repeat(Repository.HOUR_MS)).orTimeout(1, TimeUnit.MILLISECONDS);
    assertEquals(TimeoutException.class, assertThrows(CompletionException.class, timed::join).getCause().getClass());
  }

  @Test
  void interrupted() throws Exception {
    CompletableFuture<Throwable> thrown = new CompletableFuture<>();
    Thread thread = new Thread(() -> thrown.complete(assertThrows(Throwable.class, () -> server.infer(repeat(Repository.HOUR_MS)))));
    thread.start();
    while (Flight.count() == 0) {
      Thread.onSpinWait();
    }
    thread.interrupt();
    assertEquals(InterruptedException.class, thrown.get().getClass());
  }

  @Test
  void stream() throws Exception {
    Told told = new Told(Long.MAX_VALUE);
    server.stream(repeat(0, 0, 0)).subscribe(told);
    assertEquals(List.of("0", "1", "2", "complete"), told.take(4));
  }

  @Test
  void streamWithoutResponses() throws Exception {
    Told told = new Told(1);
    server.stream(repeat()).subscribe(told);
    assertEquals(List.of("complete"), told.take(1));
  }

  @Test
  void demand() throws Exception {
    Told told = new Told(0);
    server.stream(repeat(0, 0, 0)).subscribe(told);
    told.subscribed.await();
    assertTrue(told.words.isEmpty());
    told.subscription.request(1);
    assertEquals(List.of("0"), told.take(1));
    told.subscription.request(2);
    assertEquals(List.of("1", "2", "complete"), told.take(3));
  }

  @Test
  void wrongDemand() throws Exception {
    Told told = new Told(0);
    server.stream(repeat(Repository.HOUR_MS)).subscribe(told);
    told.subscribed.await();
    told.subscription.request(0);
    assertEquals(List.of("error"), told.take(1));
    assertEquals("a subscriber asks for 1 response or more, not 0", told.error.getMessage());
  }

  @Test
  void cancelledStream() throws Exception {
    Told told = new Told(1);
    server.stream(repeat(0, Repository.HOUR_MS)).subscribe(told);
    assertEquals(List.of("0"), told.take(1));
    told.subscription.cancel();
  }

  @Test
  void cancelledBeforeTheFirst() throws Exception {
    Told told =
        new Told(0) {
          @Override
          public void onSubscribe(Flow.Subscription s) {
            s.cancel();
            super.onSubscribe(s);
          }
        };
    server.stream(repeat(Repository.HOUR_MS)).subscribe(told);
    told.subscribed.await();
  }

  @Test
  void slowSubscriber() throws Exception {
    // Such an executor has the request sent when subscribe returns.
    try (NesoServer small = options().streamBuffer(2).executor(Runnable::run).start()) {
      Told told = new Told(0);
      small.stream(repeat(0, 0, 0, 0, Repository.HOUR_MS)).subscribe(told);
      while (Flight.count() != 0) {
        Thread.onSpinWait(); // until the request is cancelled
      }
      told.subscription.request(10);
      assertEquals(List.of("0", "1", "error"), told.take(3));
      assertEquals(
          "the subscriber is behind: 2 responses of repeat wait for it, the request is cancelled", told.error.getMessage());
    }
  }

  @Test
  void streamErrors() throws Exception {
    Told told = new Told(1);
    server.stream(Request.to("nobody").build()).subscribe(told);
    assertEquals(List.of("error"), told.take(1));
    assertEquals(ErrorCode.NOT_FOUND, ((NesoException) told.error).code());
  }

  @Test
  void subscriberThatThrows() throws Exception {
    Told told =
        new Told(Long.MAX_VALUE) {
          @Override
          public void onNext(Response response) {
            super.onNext(response);
            throw new IllegalStateException("as the test wants it");
          }
        };
    server.stream(repeat(0, Repository.HOUR_MS)).subscribe(told);
    assertEquals(List.of("0"), told.take(1));
  }

  @Test
  void documents() {
    assertTrue(server.isLive());
    assertTrue(server.isReady());
    assertTrue(server.isReady("identity"));
    assertTrue(server.metadata().contains("\"extensions\""));
    assertTrue(server.metadata("identity").startsWith("{\"name\":\"identity\""));
    assertTrue(server.config("repeat").contains("\"decoupled\":true"));
    assertTrue(server.statistics("identity").contains("\"model_stats\""));
    assertTrue(server.index(true).contains("\"identity\""));
    assertTrue(server.metrics().contains("nv_inference_request_success"));
  }

  @Test
  void loading() throws Exception {
    try (NesoServer mine = NesoServer.builder().repository(repository.path).explicit().name("größer").start()) {
      assertTrue(mine.metadata().contains("\"name\":\"größer\""), mine.metadata());
      assertFalse(mine.isReady("identity"));
      String config =
          """
          {"backend": "identity", "input": [{"name": "X", "data_type": "TYPE_FP32", "dims": [2]}],
           "output": [{"name": "Y", "data_type": "TYPE_FP32", "dims": [2]}]}
          """;
      mine.load("identity", Map.of("config", config));
      assertThrows(NesoException.class, () -> mine.infer(identity(Tensor.of(new float[3]))));
      mine.load("identity");
      mine.infer(identity(Tensor.of(new float[3]))).close();
      mine.unload("identity");
      assertFalse(mine.isReady("identity"));
      assertThrows(IllegalArgumentException.class, () -> mine.load("identity", Map.of("config", 7)));
      assertThrows(NesoException.class, () -> mine.load("nobody"));
    }
  }

  @Test
  void closedInFlight() throws Exception {
    NesoServer mine = options().exitTimeout(Duration.ZERO).log(false, false, true, 0).start();
    CompletableFuture<Response> future = mine.inferAsync(repeat(Repository.HOUR_MS));
    Told told = new Told(1);
    mine.stream(repeat(Repository.HOUR_MS)).subscribe(told);
    while (Flight.count() != 2) {
      Thread.onSpinWait(); // until both are sent
    }
    mine.close();
    assertEquals(NesoException.class, assertThrows(ExecutionException.class, future::get).getCause().getClass());
    // The model ends a stream that is cancelled; the server's end may come first. There is no third way.
    String end = told.take(1).get(0);
    assertTrue(List.of("error", "complete").contains(end), end);
    assertThrows(IllegalStateException.class, () -> mine.infer(repeat(0)));
    CompletableFuture<Response> late = mine.inferAsync(repeat(0));
    assertEquals(IllegalStateException.class, assertThrows(ExecutionException.class, late::get).getCause().getClass());
  }

  @Test
  void forgottenServer() throws Exception {
    WeakReference<NesoServer> forgotten = new WeakReference<>(options().log(false, false, true, 0).start());
    while (forgotten.get() != null) {
      System.gc();
      Thread.sleep(QUICK_MS);
    }
  }

  @Test
  void memoryComesAgain() throws Exception {
    int size = 3 << 20;
    for (int i = 0; i < 200; i++) {
      try (Tensor x = Tensor.of(new float[size / 4]);
          Response response = server.infer(identity(x))) {
        assertEquals(size, response.output("Y").byteSize());
      }
    }
    assertTrue(Memory.kept() <= 64 << 20, Memory.kept() + " bytes are kept");
  }

  @Test
  void sizesOfKeptMemory() {
    for (int size : new int[] {0, 1, 64, 65, 80, 81, 1 << 20, (1 << 20) + 1, 1 << 30, Integer.MAX_VALUE}) {
      int capacity = Memory.capacityOf(Memory.step(size));
      assertTrue(capacity >= size, size + " bytes in " + capacity);
      assertTrue(size < 64 || capacity <= size * 1.25 + 1, size + " bytes in " + capacity);
      assertEquals(Memory.step(size), Memory.step(capacity));
    }
  }
}
