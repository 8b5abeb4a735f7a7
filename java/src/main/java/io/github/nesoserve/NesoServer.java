package io.github.nesoserve;

import java.lang.ref.Cleaner;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.Flow;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.LongConsumer;

/**
 * A server in this process. Several may run beside each other.
 *
 * <p>Closing it stops it: requests in flight are waited for, at most for the exit timeout, and then
 * cancelled. A server that nobody closes and nobody can reach is stopped by the garbage collector, with
 * a warning in the log of {@link System.Logger}.
 */
public final class NesoServer implements AutoCloseable {
  private static final System.Logger LOG = System.getLogger(NesoServer.class.getName());
  private static final Cleaner CLEANER = Cleaner.create();

  private final Handle handle;
  private final Cleaner.Cleanable cleanable;
  private final Executor executor;
  private final int mostWaiting;

  /** The server of the library; apart, so that the cleaner does not hold what it waits for. */
  private static final class Handle implements Runnable {
    private final long server;
    private final AtomicBoolean closed = new AtomicBoolean();
    private volatile boolean byProgram;

    Handle(long server) {
      this.server = server;
    }

    @Override
    public void run() {
      if (!closed.compareAndSet(false, true)) {
        return;
      }
      if (!byProgram) {
        LOG.log(System.Logger.Level.WARNING, "a NesoServer was not closed: the garbage collector stops it");
      }
      try {
        Native.get().serverStop(server);
      } catch (NesoException e) {
        LOG.log(System.Logger.Level.WARNING, "stopping the server: " + e.getMessage());
      }
      Native.get().serverDelete(server);
    }
  }

  private NesoServer(Builder builder) {
    executor = builder.executor;
    mostWaiting = builder.mostWaiting;
    handle = new Handle(builder.make());
    cleanable = CLEANER.register(this, handle);
  }

  /**
   * The way to a server.
   *
   * @return a builder with the defaults that its methods name
   */
  public static Builder builder() {
    return new Builder();
  }

  private long open() {
    if (handle.closed.get()) {
      throw new IllegalStateException("the server is closed");
    }
    return handle.server;
  }

  /**
   * Sends a request and waits for its response. The model must answer once; for others there is {@link
   * #stream}.
   *
   * @param request what is asked
   * @return the response, to be closed
   * @throws InterruptedException where the thread is interrupted; the request is cancelled then
   * @throws NesoException what the server or the model answers in its place
   */
  public Response infer(Request request) throws InterruptedException {
    CompletableFuture<Response> answer = new CompletableFuture<>();
    Flight flight = send(request, new One(request, answer));
    try {
      return answer.get();
    } catch (ExecutionException e) {
      throw (RuntimeException) e.getCause();
    } catch (InterruptedException e) {
      flight.cancel();
      if (!answer.completeExceptionally(e)) {
        answer.thenAccept(Response::close);
      }
      throw e;
    }
  }

  /**
   * Sends a request whose model answers once. A future that is cancelled, or completed in another way
   * (as by {@code orTimeout}), cancels the request. What depends on the future runs on the executor.
   *
   * @param request what is asked; what is wrong with it completes the future, too
   * @return a future response, to be closed, or a {@link NesoException}
   */
  public CompletableFuture<Response> inferAsync(Request request) {
    CompletableFuture<Response> result = new CompletableFuture<>();
    CompletableFuture<Response> answer = new CompletableFuture<>();
    answer
        .whenCompleteAsync(
            (response, e) -> {
              if (e != null) {
                result.completeExceptionally(e);
              } else if (!result.complete(response)) {
                response.close();
              }
            },
            executor)
        // An executor that takes nothing more is told here.
        .whenComplete((response, e) -> result.completeExceptionally(e == null ? new IllegalStateException() : e));
    try {
      Flight flight = send(request, new One(request, answer));
      result.whenComplete(
          (response, e) -> {
            if (e != null) {
              flight.cancel();
            }
          });
    } catch (NesoException | IllegalStateException e) {
      answer.completeExceptionally(e);
    }
    return result;
  }

  /**
   * The responses of a request to a model that answers any number of times. Nothing is sent before
   * somebody subscribes, and each subscriber has the request sent for itself. The last response is
   * followed by {@code onComplete}; cancelling a subscription cancels its request. Subscribers close
   * the responses that they get.
   *
   * <p>The server does not wait for subscribers: one that leaves more responses waiting than {@link
   * Builder#streamBuffer} says has its request cancelled, and gets an error of the code {@code
   * UNAVAILABLE} behind those that wait.
   *
   * @param request what is asked
   * @return a publisher, which any number may subscribe to
   */
  public Flow.Publisher<Response> stream(Request request) {
    open();
    return new Stream(this, Objects.requireNonNull(request, "request"), executor, mostWaiting);
  }

  Flight send(Request request, Flight.Sink sink) {
    return Flight.send(this, open(), request, sink);
  }

  /**
   * Whether the server lives.
   *
   * @return true from its start until it is stopped
   */
  public boolean isLive() {
    return Native.get().isLive(open());
  }

  /**
   * Whether the server and, unless set otherwise, its models can answer.
   *
   * @return true where they can
   */
  public boolean isReady() {
    return Native.get().isReady(open());
  }

  /**
   * Whether a model can answer, in the version that its policy chooses.
   *
   * @param model its name
   * @return true where it can
   * @throws NesoException where there is no such model
   */
  public boolean isReady(String model) {
    return Native.get().isReady(open(), Request.text("model", model), -1);
  }

  /**
   * The server's name, version and extensions.
   *
   * @return a JSON document, as {@code GET /v2} answers it
   */
  public String metadata() {
    return Native.get().metadata(open());
  }

  /**
   * A model's versions, inputs and outputs.
   *
   * @param model its name
   * @return a JSON document, as {@code GET /v2/models/NAME} answers it
   */
  public String metadata(String model) {
    return Native.get().metadata(open(), Request.text("model", model), -1);
  }

  /**
   * A model's configuration, completed.
   *
   * @param model its name
   * @return a JSON document, as {@code GET /v2/models/NAME/config} answers it
   */
  public String config(String model) {
    return Native.get().config(open(), Request.text("model", model), -1);
  }

  /**
   * What a model has done so far. Times are nanoseconds.
   *
   * @param model its name; empty for all models
   * @return a JSON document, as {@code GET /v2/models/NAME/stats} answers it
   */
  public String statistics(String model) {
    return Native.get().statistics(open(), Request.text("model", model), -1);
  }

  /**
   * The models of the repositories and their states.
   *
   * @param readyOnly leaves out those that are not ready
   * @return a JSON document, as {@code POST /v2/repository/index} answers it
   */
  public String index(boolean readyOnly) {
    return Native.get().index(open(), readyOnly);
  }

  /**
   * All metrics.
   *
   * @return a text in the format of Prometheus
   */
  public String metrics() {
    return Native.get().metrics(open());
  }

  /**
   * Loads a model, or loads it anew. It is there when this returns.
   *
   * @param model its name
   */
  public void load(String model) {
    load(model, Map.of());
  }

  /**
   * Loads a model with another configuration or other files than the repository has.
   *
   * @param model its name
   * @param parameters {@code config}: a String, the configuration as JSON; {@code file:PATH}: a byte[],
   *     the content of a file of the model
   */
  public void load(String model, Map<String, Object> parameters) {
    parameters.forEach(
        (name, value) -> {
          if (!(value instanceof String || value instanceof byte[])) {
            throw new IllegalArgumentException("parameter %s: a String or a byte[] is wanted, not %s".formatted(name, value));
          }
        });
    Native.get().load(open(), Request.text("model", model), parameters);
  }

  /**
   * Unloads a model. It takes no requests when this returns; those that it has are answered.
   *
   * @param model its name
   */
  public void unload(String model) {
    Native.get().unload(open(), Request.text("model", model), false);
  }

  /** Stops the server; see the class. A second call does nothing. */
  @Override
  public void close() {
    handle.byProgram = true;
    cleanable.clean();
    Flight.abandon(this);
  }

  /** Options of a server. It is for one thread. */
  public static final class Builder {
    private static final int EXPLICIT = 2;
    private static final int MOST_WAITING = 1024;
    private static final int EXIT_TIMEOUT_S = 30;

    private final List<LongConsumer> options = new ArrayList<>();
    private final List<String> models = new ArrayList<>();
    private Executor executor = ForkJoinPool.commonPool();
    private int mostWaiting = MOST_WAITING;
    private boolean repository;
    private boolean everything = true;

    private Builder() {
      exitTimeout(Duration.ofSeconds(EXIT_TIMEOUT_S));
      log(false, true, true, 0);
    }

    /**
     * Adds a model repository. There must be one.
     *
     * @param path a directory
     * @return this builder
     */
    public Builder repository(Path path) {
      return repository(path.toString());
    }

    /**
     * Adds a model repository of any kind.
     *
     * @param path a directory, or an address as {@code s3://host:port/bucket/path}
     * @return this builder
     */
    public Builder repository(String path) {
      repository = true;
      String checked = Request.text("repository", path);
      return option(o -> Native.get().optionsRepository(o, checked));
    }

    /**
     * Loads a model at the start, and only those that are named so; {@link NesoServer#load} is allowed
     * then. By default all models of the repositories are loaded, and the choice is fixed.
     *
     * @param name its name; {@code *} for all
     * @return this builder
     */
    public Builder model(String name) {
      everything = false;
      models.add(Request.text("model", name));
      return this;
    }

    /**
     * Loads nothing at the start but what {@link #model} names, and allows {@link NesoServer#load}.
     *
     * @return this builder
     */
    public Builder explicit() {
      everything = false;
      return this;
    }

    /**
     * The name in the server's metadata.
     *
     * @param name any text; the library's own by default
     * @return this builder
     */
    public Builder name(String name) {
      String checked = Request.text("name", name);
      return option(o -> Native.get().optionsName(o, checked));
    }

    /**
     * How long closing waits for requests in flight.
     *
     * @param timeout whole seconds, parts are rounded up; 30 by default
     * @return this builder
     */
    public Builder exitTimeout(Duration timeout) {
      if (timeout.isNegative()) {
        throw new IllegalArgumentException("a timeout is not below 0: " + timeout);
      }
      int seconds = (int) Math.min(timeout.plusMillis(999).toSeconds(), Integer.MAX_VALUE);
      return option(o -> Native.get().optionsExitTimeout(o, seconds));
    }

    /**
     * What the server writes to standard error. The log is the process's: all its servers share it.
     *
     * @param info what happens; not by default
     * @param warnings by default
     * @param errors by default
     * @param verbose 0 for nothing more, the default; 1 and above for details
     * @return this builder
     */
    public Builder log(boolean info, boolean warnings, boolean errors, int verbose) {
      return option(o -> Native.get().optionsLog(o, info, warnings, errors, verbose));
    }

    /**
     * A setting of a backend, as {@code --backend-config=BACKEND,NAME=VALUE} of the command.
     *
     * @param backend the backend's name; empty for all
     * @param name the setting
     * @param value its value
     * @return this builder
     */
    public Builder backendConfig(String backend, String name, String value) {
      String b = Request.text("backend", backend);
      String n = Request.text("name", name);
      String v = Request.text("value", value);
      return option(o -> Native.get().optionsBackend(o, b, n, v));
    }

    /**
     * A cache of responses, as {@code --cache-config} of the command.
     *
     * @param cache {@code local} or {@code redis}
     * @param json its settings, as <code>{"size": "67108864"}</code>, bytes
     * @return this builder
     */
    public Builder cache(String cache, String json) {
      String c = Request.text("cache", cache);
      String j = Request.text("json", json);
      return option(o -> Native.get().optionsCache(o, c, j));
    }

    /**
     * Whether metrics are kept.
     *
     * @param on true by default
     * @return this builder
     */
    public Builder metrics(boolean on) {
      return option(o -> Native.get().optionsMetrics(o, on));
    }

    /**
     * Where the program's code runs: what depends on futures, and subscribers.
     *
     * @param executor the common pool of {@link ForkJoinPool} by default
     * @return this builder
     */
    public Builder executor(Executor executor) {
      this.executor = Objects.requireNonNull(executor, "executor");
      return this;
    }

    /**
     * How many responses of a stream may wait for its subscriber.
     *
     * @param responses 1 or more; 1024 by default
     * @return this builder
     */
    public Builder streamBuffer(int responses) {
      if (responses < 1) {
        throw new IllegalArgumentException("a stream needs room for 1 response or more, not " + responses);
      }
      mostWaiting = responses;
      return this;
    }

    private Builder option(LongConsumer option) {
      options.add(option);
      return this;
    }

    /**
     * Starts the server and loads its models. It is ready when this returns.
     *
     * @return a server, to be closed
     * @throws NesoException where an option is wrong, or a model cannot be loaded
     * @throws IllegalStateException where no repository is named, or the library cannot be found
     */
    public NesoServer start() {
      if (!repository) {
        throw new IllegalStateException("a server needs a model repository");
      }
      return new NesoServer(this);
    }

    private long make() {
      Native library = Native.get();
      long made = library.optionsNew();
      try {
        options.forEach(option -> option.accept(made));
        if (!everything) {
          library.optionsControl(made, EXPLICIT);
          models.forEach(model -> library.optionsModel(made, model));
        }
        return library.serverNew(made);
      } finally {
        library.optionsDelete(made);
      }
    }
  }
}
