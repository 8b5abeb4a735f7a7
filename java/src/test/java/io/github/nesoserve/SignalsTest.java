package io.github.nesoserve;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The JVM and the library, whose runtime is Go's, share a process: {@link Torture} under every flag and signal. */
@Timeout(value = 300, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class SignalsTest {
  private static final String SECONDS = "1";
  private static final int KILLED_BY_TERM = 143;
  private static final int MANY_SIGNALS = 50;

  private Repository repository;
  private Process process;
  private BufferedReader out;
  private final List<String> lines = new ArrayList<>();

  @BeforeEach
  void start() {
    repository = new Repository();
  }

  @AfterEach
  void stop() throws InterruptedException {
    process.destroyForcibly().waitFor();
    repository.close();
  }

  /** Starts the program in a JVM with these flags, and without -Xrs. */
  private void run(String end, String... flags) throws IOException {
    List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString()));
    for (String argument : ManagementFactory.getRuntimeMXBean().getInputArguments()) {
      if (argument.startsWith("-Djava.library.path=") || argument.startsWith("--enable-native-access")) {
        command.add(argument);
      }
    }
    for (String property : List.of("org.bytedeco.javacpp.cachedir", Native.BINDING)) {
      if (System.getProperty(property) != null) {
        command.add("-D%s=%s".formatted(property, System.getProperty(property)));
      }
    }
    command.addAll(List.of(flags));
    command.addAll(
        List.of("-cp", System.getProperty("java.class.path"), Torture.class.getName(), repository.path.toString(), SECONDS, end));
    process = new ProcessBuilder(command).redirectErrorStream(true).start();
    out = process.inputReader();
    until("running");
  }

  /** Reads the program's lines until one that is, or starts, so. */
  private void until(String word) throws IOException {
    for (String line = out.readLine(); line != null; line = out.readLine()) {
      lines.add(line);
      if (line.startsWith(word)) {
        return;
      }
    }
    throw new AssertionError("no line " + word + " in\n" + String.join("\n", lines));
  }

  /** The rest of the lines, when the program has ended so. */
  private String ends(int status) throws Exception {
    out.lines().forEach(lines::add);
    assertTrue(process.waitFor(1, TimeUnit.MINUTES));
    String all = String.join("\n", lines);
    assertEquals(status, process.exitValue(), all);
    assertFalse(all.contains("in native method"), all);
    assertFalse(all.contains("fatal error"), all);
    return all;
  }

  private void signal(String name) throws Exception {
    assertEquals(0, new ProcessBuilder("kill", "-" + name, Long.toString(process.pid())).start().waitFor());
  }

  @Test
  void checkedCallsAndStorms() throws Exception {
    run("close", "-Xcheck:jni", "-Xmx64m");
    for (int i = 0; i < MANY_SIGNALS; i++) {
      signal("PROF");
    }
    signal("QUIT");
    until("Full thread dump");
    String all = ends(0);
    assertTrue(all.contains("0 in flight\nok\nhook"), all);
  }

  @Test
  void interpretedWithSampling() throws Exception {
    // Without a compiler every null check is a signal; the recorder stops threads by signals, too.
    run("close", "-Xint", "-Xmx64m", "-XX:StartFlightRecording:settings=profile,filename=/dev/null");
    assertTrue(ends(0).endsWith("ok\nhook"));
  }

  @Test
  void collectorThatRunsBeside() throws Exception {
    run("close", "-XX:+UseZGC", "-Xmx128m");
    assertTrue(ends(0).contains("ok\nhook"));
  }

  @Test
  void smallStacks() throws Exception {
    run("close", "-Xss256k", "-Xmx64m");
    assertTrue(ends(0).contains("ok\nhook"));
  }

  @Test
  void exitUnderLoad() throws Exception {
    run("exit");
    assertTrue(ends(7).endsWith("hook"));
  }

  @Test
  void termUnderLoad() throws Exception {
    run("term");
    signal("TERM");
    assertTrue(ends(KILLED_BY_TERM).endsWith("hook"));
  }
}
