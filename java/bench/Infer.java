import com.sun.management.OperatingSystemMXBean;
import io.github.nesoserve.Datatype;
import io.github.nesoserve.NesoServer;
import io.github.nesoserve.Request;
import io.github.nesoserve.Response;
import io.github.nesoserve.Tensor;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Path;

/**
 * Sends requests of so many bytes to the model identity, one after the other, and prints microseconds a
 * request, by the clock and of the processor: the same as infer.c. Usage: Infer REPOSITORY BYTES SECONDS
 */
class Infer {
  public static void main(String[] args) throws Exception {
    int bytes = Integer.parseInt(args[1]);
    long wait = (long) (Double.parseDouble(args[2]) * 1e9);
    try (NesoServer server = NesoServer.builder().repository(Path.of(args[0])).start();
        Tensor x = Tensor.wrap(Datatype.FP32, ByteBuffer.allocateDirect(bytes), bytes / Float.BYTES)) {
      Request request = Request.to("identity").input("X", x).build();
      long start = System.nanoTime();
      long begin = 0;
      long cpu = 0;
      long count = 0;
      for (long now = start; now - start < wait; now = System.nanoTime()) {
        if (begin == 0 && now - start > wait / 2) { // the first half warms up
          begin = now;
          cpu = cpu();
          count = 0;
        }
        server.infer(request).close();
        count++;
      }
      System.out.printf("%.2f %.2f%n", (System.nanoTime() - begin) / 1e3 / count, (cpu() - cpu) / 1e3 / count);
    }
  }

  private static long cpu() {
    return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
  }
}
