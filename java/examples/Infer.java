import io.github.nesoserve.Datatype;
import io.github.nesoserve.ErrorCode;
import io.github.nesoserve.NesoException;
import io.github.nesoserve.NesoServer;
import io.github.nesoserve.Request;
import io.github.nesoserve.Response;
import io.github.nesoserve.Tensor;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Flow;

/**
 * Sends a request to the model identity of a repository, and takes the responses of the decoupled
 * model repeat as they come. Usage: Infer REPOSITORY
 */
class Infer {
  public static void main(String[] args) throws Exception {
    try (NesoServer server = NesoServer.builder().repository(Path.of(args[0])).model("identity").model("repeat").start()) {
      try (Tensor x = Tensor.of(new float[] {1, 2, 3});
          Response response = server.infer(Request.to("identity").input("X", x).build())) {
        System.out.println("Y = " + Arrays.toString(response.output("Y").toFloats()));
      }

      Request request =
          Request.to("repeat")
              .input("IN", Tensor.of(new int[] {7, 8, 9}))
              .input("DELAY", Tensor.of(Datatype.UINT32, new int[3]))
              .input("WAIT", Tensor.of(Datatype.UINT32, new int[1]))
              .build();
      CountDownLatch done = new CountDownLatch(1);
      server.stream(request).subscribe(new Printer(done));
      done.await();

      server
          .inferAsync(Request.to("nobody").build())
          .exceptionally(
              e -> {
                System.out.println("there is no such model: " + (((NesoException) e).code() == ErrorCode.NOT_FOUND));
                return null;
              })
          .join();
    }
  }

  /** Prints each response, and closes it. */
  private record Printer(CountDownLatch done) implements Flow.Subscriber<Response> {
    @Override
    public void onSubscribe(Flow.Subscription subscription) {
      subscription.request(Long.MAX_VALUE);
    }

    @Override
    public void onNext(Response response) {
      try (response) {
        System.out.println("OUT = " + response.output("OUT").toInts()[0]);
      }
    }

    @Override
    public void onError(Throwable e) {
      System.out.println(e.getMessage());
      done.countDown();
    }

    @Override
    public void onComplete() {
      done.countDown();
    }
  }
}
