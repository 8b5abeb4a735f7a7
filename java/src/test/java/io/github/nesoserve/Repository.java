package io.github.nesoserve;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Map;

/** A model repository that ends with the test: models of backends that are in the library. */
final class Repository implements AutoCloseable {
  /** Milliseconds, longer than any test. */
  static final int HOUR_MS = 3_600_000;

  private static final Map<String, String> MODELS =
      Map.of(
          "identity",
          """
          backend: "identity"
          input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] }
          output { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }
          """,
          "texts",
          """
          backend: "identity"
          input { name: "X" data_type: TYPE_STRING dims: [ -1 ] }
          output { name: "Y" data_type: TYPE_STRING dims: [ -1 ] }
          """,
          "repeat",
          """
          backend: "repeat"
          input { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }
          input { name: "DELAY" data_type: TYPE_UINT32 dims: [ -1 ] }
          input { name: "WAIT" data_type: TYPE_UINT32 dims: [ 1 ] }
          output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }
          output { name: "IDX" data_type: TYPE_UINT32 dims: [ 1 ] }
          model_transaction_policy { decoupled: true }
          """);

  final Path path;

  Repository() {
    try {
      path = Files.createTempDirectory("neso-java-");
      for (Map.Entry<String, String> model : MODELS.entrySet()) {
        Files.createDirectories(path.resolve(model.getKey()).resolve("1"));
        Files.writeString(path.resolve(model.getKey()).resolve("config.pbtxt"), model.getValue());
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public void close() {
    List<Path> all;
    try (var walk = Files.walk(path)) {
      all = walk.sorted(Comparator.reverseOrder()).toList();
      for (Path each : all) {
        Files.delete(each);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
