package io.github.nesoserve;

import java.util.concurrent.CompletableFuture;

/** The one response of a model that answers once. */
final class One implements Flight.Sink {
  private final Request request;
  private final CompletableFuture<Response> answer;
  private Response first;
  private int count;

  One(Request request, CompletableFuture<Response> answer) {
    this.request = request;
    this.answer = answer;
  }

  @Override
  public synchronized void response(Response response) {
    count++;
    if (first == null) {
      first = response;
    } else {
      response.close();
    }
  }

  @Override
  public synchronized void end(RuntimeException cause) {
    RuntimeException e = cause;
    if (e == null && count != 1) {
      e =
          new NesoException(
              ErrorCode.UNSUPPORTED,
              "model %s answered %d responses to a request for one: use stream".formatted(request.model(), count));
    }
    if (e == null && answer.complete(first)) {
      return;
    }
    if (first != null) {
      first.close();
    }
    answer.completeExceptionally(e);
  }
}
