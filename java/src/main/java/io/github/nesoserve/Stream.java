package io.github.nesoserve;

import java.util.ArrayDeque;
import java.util.Objects;
import java.util.Queue;
import java.util.concurrent.Executor;
import java.util.concurrent.Flow;
import java.util.concurrent.RejectedExecutionException;

/**
 * The responses of a request as a publisher: each subscriber has the request sent for itself.
 *
 * <p>The server does not wait for subscribers. Responses that nobody has asked for yet wait here, up to
 * a bound, behind which the request is cancelled and the subscriber gets an error.
 */
final class Stream implements Flow.Publisher<Response> {
  private static final System.Logger LOG = System.getLogger(Stream.class.getName());

  private final NesoServer server;
  private final Request request;
  private final Executor executor;
  private final int mostWaiting;

  Stream(NesoServer server, Request request, Executor executor, int mostWaiting) {
    this.server = server;
    this.request = request;
    this.executor = executor;
    this.mostWaiting = mostWaiting;
  }

  @Override
  public void subscribe(Flow.Subscriber<? super Response> subscriber) {
    new Subscribed(Objects.requireNonNull(subscriber, "subscriber")).start();
  }

  /** One subscriber: signals are made by one task of the executor at a time. */
  private final class Subscribed implements Flow.Subscription, Flight.Sink {
    private final Flow.Subscriber<? super Response> subscriber;

    // Below: guarded by this.
    private final Queue<Response> waiting = new ArrayDeque<>();
    private Flight flight;
    private long demand;
    private Throwable cause;
    private boolean greeted;
    private boolean ended;
    private boolean over;
    private boolean running;

    Subscribed(Flow.Subscriber<? super Response> subscriber) {
      this.subscriber = subscriber;
    }

    void start() {
      synchronized (this) {
        running = true; // nothing else is signalled before onSubscribe has returned
      }
      executor.execute(
          () -> {
            try {
              subscriber.onSubscribe(this);
              send();
            } catch (RuntimeException e) {
              end(e);
            }
            synchronized (this) {
              greeted = true;
            }
            run();
          });
    }

    private void send() {
      synchronized (this) {
        if (over) {
          return;
        }
      }
      Flight sent = server.send(request, this);
      boolean late;
      synchronized (this) {
        flight = sent;
        late = over || ended; // whoever wanted to cancel had no flight to cancel
      }
      if (late) {
        sent.cancel();
      }
    }

    @Override
    public void response(Response response) {
      boolean taken;
      synchronized (this) {
        taken = !over && !ended && waiting.size() < mostWaiting;
        if (taken) {
          waiting.add(response);
        }
      }
      if (taken) {
        wake();
        return;
      }
      response.close();
      end(
          new NesoException(
              ErrorCode.UNAVAILABLE,
              "the subscriber is behind: %d responses of %s wait for it, the request is cancelled"
                  .formatted(mostWaiting, request.model())));
      cancelFlight();
    }

    @Override
    public void end(RuntimeException e) {
      synchronized (this) {
        if (ended) {
          return;
        }
        ended = true;
        cause = e;
      }
      wake();
    }

    @Override
    public void request(long n) {
      synchronized (this) {
        if (n > 0) {
          demand = demand + n < 0 ? Long.MAX_VALUE : demand + n;
        }
      }
      if (n <= 0) {
        end(new IllegalArgumentException("a subscriber asks for 1 response or more, not " + n));
        drop();
        cancelFlight();
        return;
      }
      wake();
    }

    @Override
    public void cancel() {
      synchronized (this) {
        over = true;
      }
      drop();
      cancelFlight();
    }

    private void cancelFlight() {
      Flight now;
      synchronized (this) {
        now = flight;
      }
      if (now != null) {
        now.cancel();
      }
    }

    private void drop() {
      Queue<Response> dropped;
      synchronized (this) {
        dropped = new ArrayDeque<>(waiting);
        waiting.clear();
      }
      dropped.forEach(Response::close);
    }

    private void wake() {
      synchronized (this) {
        if (running || !greeted) {
          return;
        }
        running = true;
      }
      try {
        executor.execute(this::run);
      } catch (RejectedExecutionException e) {
        LOG.log(System.Logger.Level.WARNING, "the executor takes nothing more: the request is cancelled", e);
        cancel();
      }
    }

    /** Signals what there is and is asked for. */
    private void run() {
      for (; ; ) {
        Response next;
        boolean last;
        synchronized (this) {
          next = over || demand == 0 ? null : waiting.poll();
          last = !over && next == null && ended && waiting.isEmpty();
          if (next == null && !last) {
            running = false;
            return;
          }
          if (next != null && demand != Long.MAX_VALUE) {
            demand--;
          }
          over = over || last;
        }
        try {
          if (last && cause != null) {
            subscriber.onError(cause);
          } else if (last) {
            subscriber.onComplete();
          } else {
            subscriber.onNext(next);
          }
        } catch (RuntimeException e) {
          LOG.log(System.Logger.Level.WARNING, "a subscriber threw, and gets nothing more", e);
          cancel();
        }
      }
    }
  }
}
