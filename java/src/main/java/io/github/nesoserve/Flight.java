package io.github.nesoserve;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A request in flight: from its sending until its last response has come and the server has let go of
 * it. Callbacks of the library find it by its key.
 *
 * <p>All flights hang on a map of the class, and hold their server, inputs and buffers: none of these
 * can go while the library may touch them.
 */
final class Flight {
  /** Where responses go. Called by threads of the server: nothing of the program's runs in it. */
  interface Sink {
    void response(Response response);

    /** Called once, behind all responses. The cause is null where nothing went wrong. */
    void end(RuntimeException cause);
  }

  private static final int FINAL = 1;
  private static final System.Logger LOG = System.getLogger(Flight.class.getName());
  private static final ConcurrentHashMap<Long, Flight> ALL = new ConcurrentHashMap<>();
  private static final AtomicLong NEXT = new AtomicLong();

  private final long key = NEXT.incrementAndGet();
  private final NesoServer server;
  private final Sink sink;
  private final List<Memory> inputs = new ArrayList<>();

  // Below: guarded by this.
  private final Map<Long, Memory> outputs = new HashMap<>();
  private long handle;
  private boolean answered;
  private boolean released;
  private boolean told;
  private RuntimeException failed;

  private Flight(NesoServer server, Sink sink) {
    this.server = server;
    this.sink = sink;
  }

  /** Sends a request. What the server refuses is thrown, and then the sink hears nothing. */
  static Flight send(NesoServer server, long serverHandle, Request request, Sink sink) {
    Native library = Native.get();
    Flight flight = new Flight(server, sink);
    try {
      flight.handle = library.requestNew(serverHandle, request.model(), request.version());
      request.fill(library, flight.handle, flight.inputs);
      ALL.put(flight.key, flight);
      library.send(serverHandle, flight.handle, flight.key);
    } catch (RuntimeException | Error e) {
      ALL.remove(flight.key);
      flight.inputs.forEach(Memory::letGo);
      if (flight.handle != 0) {
        library.requestDelete(flight.handle);
      }
      throw e;
    }
    return flight;
  }

  /** Asks the server to give the request up; it may answer all the same. */
  void cancel() {
    long now;
    synchronized (this) {
      now = answered || released ? 0 : handle;
    }
    if (now == 0) {
      return;
    }
    try {
      Native.get().cancel(now);
    } catch (NesoException e) {
      // It ended meanwhile: the library knows a request that is gone from a new one.
      LOG.log(System.Logger.Level.TRACE, "a cancellation came late", e);
    }
  }

  /** Tells the sinks of a server's flights that it is gone. */
  static void abandon(NesoServer server) {
    for (Flight flight : ALL.values()) {
      if (flight.server == server) {
        flight.tell(new NesoException(ErrorCode.UNAVAILABLE, "the server was closed before the last response"));
      }
    }
  }

  /** Requests that the library has not let go of. */
  static int count() {
    return ALL.size();
  }

  private void tell(RuntimeException cause) {
    synchronized (this) {
      if (told) {
        return;
      }
      told = true;
    }
    sink.end(cause);
  }

  /** Called by the library: memory for an output. Returns its address, 0 where there is none. */
  static long allocate(long key, long byteSize) {
    Flight flight = ALL.get(key);
    if (flight == null || byteSize < 0 || byteSize > Integer.MAX_VALUE) {
      return 0;
    }
    Memory memory = Memory.of((int) byteSize);
    synchronized (flight) {
      flight.outputs.put(memory.address(), memory);
    }
    return memory.address();
  }

  /** Called by the library: it has let go of the request and its inputs. */
  static void released(long key) {
    Flight flight = ALL.get(key);
    if (flight == null) {
      return;
    }
    flight.inputs.forEach(Memory::letGo);
    synchronized (flight) {
      flight.released = true;
    }
    flight.land();
  }

  /** Called by the library: a response, or none where only the flags are told. */
  static void answered(long key, long response, int flags) {
    Flight flight = ALL.get(key);
    if (flight == null) {
      LOG.log(System.Logger.Level.ERROR, "a response came for a request that is not in flight");
      return;
    }
    RuntimeException cause = null;
    try {
      if (response != 0) {
        cause = flight.take(response);
      }
    } catch (RuntimeException e) {
      cause = new NesoException(ErrorCode.INTERNAL, "a response could not be read: " + e.getMessage(), e);
    }
    synchronized (flight) {
      flight.failed = flight.failed == null ? cause : flight.failed;
      flight.answered = flight.answered || (flags & FINAL) != 0;
    }
    flight.land();
  }

  private synchronized RuntimeException failed() {
    return failed;
  }

  /** Passes a response on; an error that it carries is returned. */
  private RuntimeException take(long response) {
    Native library = Native.get();
    Native.Answer answer;
    try {
      answer = library.read(response);
    } finally {
      library.responseDelete(response);
    }
    Map<Long, Memory> given;
    synchronized (this) {
      given = new HashMap<>(outputs);
      outputs.clear();
    }
    Map<String, Tensor> tensors = new LinkedHashMap<>();
    RuntimeException cause = answer.error();
    if (cause == null) {
      for (Native.Output output : answer.outputs()) {
        Memory memory = given.remove(output.address());
        if (memory == null) {
          memory = Memory.of(0); // an output without bytes has no address
        }
        tensors.put(output.name(), new Tensor(Datatype.of(output.datatype()), output.shape(), memory));
      }
    }
    given.values().forEach(Memory::letGo);
    if (cause == null && failed() == null) {
      sink.response(new Response(answer, tensors));
    }
    return cause;
  }

  /**
   * Ends the flight when nothing will come any more. Only then is its end told: before the server has
   * let go of the inputs, the program may not write to buffers of its own.
   */
  private void land() {
    synchronized (this) {
      if (!answered || !released || handle == 0) {
        return;
      }
      Native.get().requestDelete(handle);
      handle = 0;
    }
    ALL.remove(key);
    tell(failed());
  }
}
