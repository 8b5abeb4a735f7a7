package io.github.nesoserve;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.Pipe;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Flow;
import java.util.concurrent.atomic.AtomicLong;
import sun.misc.Signal;

/**
 * A program that loads the server with requests while the JVM does all that it does by signals: null
 * checks, overflows of the stack, divisions, mappings that are cut off, broken pipes, and collections
 * in a loop. Usage: Torture REPOSITORY SECONDS [END], where END is how it ends: {@code close}, {@code
 * exit} in the middle of the load, or {@code term}, when the signal comes.
 */
final class Torture {
  private static final int LARGE = 64 << 10;
  private static final int SHOW_S = 30;

  private static final AtomicLong REQUESTS = new AtomicLong();
  private static final AtomicLong RESPONSES = new AtomicLong();
  private static final AtomicLong COLLECTIONS = new AtomicLong();
  private static final AtomicLong FAULTS = new AtomicLong();
  private static final AtomicLong SIGNALS = new AtomicLong();
  private static final ConcurrentLinkedQueue<Throwable> FAILED = new ConcurrentLinkedQueue<>();

  private static volatile boolean stopped;
  private static volatile Object sunk;
  private static volatile int zero;

  private int number;

  private interface Part {
    void once() throws Exception;
  }

  private static Thread part(Part part) {
    Thread thread =
        new Thread(
            () -> {
              try {
                while (!stopped) {
                  part.once();
                }
              } catch (Throwable e) {
                FAILED.add(e);
                stopped = true;
              }
            });
    thread.setDaemon(true);
    thread.start();
    return thread;
  }

  private static void infer(NesoServer server, float[] values) throws Exception {
    try (Tensor x = Tensor.of(values);
        Response response = server.infer(Request.to("identity").input("X", x).build())) {
      check(Arrays.equals(values, response.output("Y").toFloats()), "another answer");
    }
    REQUESTS.incrementAndGet();
  }

  private static void stream(NesoServer server) throws Exception {
    int n = 20;
    int[] in = new int[n];
    Arrays.setAll(in, i -> i);
    CountDownLatch done = new CountDownLatch(1);
    List<Integer> got = new ArrayList<>();
    Request request =
        Request.to("repeat")
            .input("IN", Tensor.of(in))
            .input("DELAY", Tensor.of(Datatype.UINT32, new int[n]))
            .input("WAIT", Tensor.of(Datatype.UINT32, new int[1]))
            .build();
    server
        .stream(request)
        .subscribe(
            new Flow.Subscriber<>() {
              @Override
              public void onSubscribe(Flow.Subscription s) {
                s.request(Long.MAX_VALUE);
              }

              @Override
              public void onNext(Response response) {
                try (response) {
                  got.add(response.output("OUT").toInts()[0]);
                }
              }

              @Override
              public void onError(Throwable e) {
                FAILED.add(e);
                done.countDown();
              }

              @Override
              public void onComplete() {
                done.countDown();
              }
            });
    done.await();
    check(got.equals(Arrays.stream(in).boxed().toList()), "responses " + got);
    RESPONSES.addAndGet(n);
  }

  private static void check(boolean is, String otherwise) {
    if (!is) {
      throw new AssertionError(otherwise);
    }
  }

  /** SIGSEGV, which the JVM makes an exception of. */
  private static void nullCheck() {
    Torture none = REQUESTS.get() < 0 ? new Torture() : null;
    try {
      none.number++;
      throw new AssertionError("null has a number");
    } catch (NullPointerException e) {
      FAULTS.incrementAndGet();
    }
  }

  /** SIGFPE, likewise. */
  private static void division() {
    try {
      sunk = 1 / zero;
      throw new AssertionError("a division by zero");
    } catch (ArithmeticException e) {
      FAULTS.incrementAndGet();
    }
  }

  private static int deeper(int n) {
    return deeper(n + 1) + 1;
  }

  /** SIGSEGV in the guard pages of a thread that has called the library before. */
  private static void overflow() {
    try {
      deeper(0);
    } catch (StackOverflowError e) {
      FAULTS.incrementAndGet();
    }
  }

  /** SIGBUS: a page of a mapping that its file has no more. */
  private static void cutOff(Path file) {
    try (FileChannel channel =
        FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
      channel.write(ByteBuffer.allocate(1 << 14), 0);
      MappedByteBuffer mapped = channel.map(FileChannel.MapMode.READ_ONLY, 0, 1 << 14);
      channel.truncate(0);
      try {
        sunk = mapped.get(1 << 13);
        throw new AssertionError("a page that is not there");
      } catch (InternalError e) {
        FAULTS.incrementAndGet();
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** SIGPIPE, which is an error to the writer. */
  private static void brokenPipe() throws IOException {
    Pipe pipe = Pipe.open();
    pipe.source().close();
    try (Pipe.SinkChannel sink = pipe.sink()) {
      sink.write(ByteBuffer.allocate(1));
      throw new AssertionError("a pipe without a reader");
    } catch (IOException e) {
      FAULTS.incrementAndGet();
    }
  }

  private static String shown() throws IOException {
    String resident =
        Files.readAllLines(Path.of("/proc/self/status")).stream()
            .filter(l -> l.startsWith("VmRSS") || l.startsWith("Threads"))
            .map(l -> l.replaceAll("\\s+", " "))
            .reduce("", (a, b) -> a + ", " + b);
    return "%d requests, %d streamed, %d collections, %d faults, %d signals%s, %d in flight"
        .formatted(
            REQUESTS.get(), RESPONSES.get(), COLLECTIONS.get(), FAULTS.get(), SIGNALS.get(), resident, Flight.count());
  }

  public static void main(String[] args) throws Exception {
    Path repository = Path.of(args[0]);
    long seconds = Long.parseLong(args[1]);
    String end = args.length > 2 ? args[2] : "close";
    NesoServer server = NesoServer.builder().repository(repository).model("identity").model("repeat").start();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("hook")));
    // A handler that is made when the library is there already.
    Signal.handle(new Signal("PROF"), s -> SIGNALS.incrementAndGet());
    Path file = Files.createTempFile("neso-torture-", "");
    float[] small = {1, 2, 3};
    float[] large = new float[LARGE];
    for (int i = 0; i < large.length; i++) {
      large[i] = i;
    }
    List<Thread> parts =
        List.of(
            part(() -> infer(server, small)),
            part(() -> infer(server, large)),
            part(() -> stream(server)),
            part(
                () -> {
                  sunk = new byte[1 << 16];
                  if (COLLECTIONS.incrementAndGet() % 64 == 0) {
                    System.gc();
                  }
                }),
            part(
                () -> {
                  infer(server, small);
                  nullCheck();
                  division();
                  overflow();
                  cutOff(file);
                  brokenPipe();
                }));
    while (REQUESTS.get() < 100 || RESPONSES.get() < 100 || FAULTS.get() < 100) {
      Thread.sleep(1);
      check(!stopped, "a part failed: " + FAILED);
    }
    System.out.println("running");
    if (end.equals("exit")) {
      System.exit(7);
    }
    for (long i = 0; i < seconds && !stopped; i++) {
      Thread.sleep(1000);
      if (i % SHOW_S == SHOW_S - 1) {
        System.out.println(shown());
      }
    }
    stopped = true;
    for (Thread each : parts) {
      each.join();
    }
    server.close();
    Files.delete(file);
    System.out.println(shown());
    if (!FAILED.isEmpty()) {
      FAILED.forEach(Throwable::printStackTrace);
      System.exit(1);
    }
    System.out.println("ok");
  }
}
