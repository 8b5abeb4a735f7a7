package io.github.nesoserve;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;

/**
 * The functions of the library that this package uses, in Java's types: objects of the library are
 * numbers, an error that a function answers is thrown as {@link NesoException}.
 *
 * <p>There are two ways into the library: the bindings of JavaCPP, on every JDK from 17 on, and the
 * foreign function interface of JDK 22. Both call back into {@link Flight}.
 */
interface Native {
  /** The setting that chooses the way: {@code javacpp} or {@code foreign}. */
  String BINDING = "io.github.nesoserve.binding";

  /** The first release of Java whose foreign function interface is there to stay. */
  int FOREIGN_SINCE = 22;

  /** What a response has, as it is read before the response is deleted. */
  record Answer(NesoException error, String model, long version, String id, Map<String, Object> parameters, List<Output> outputs) {}

  /** An output of a response: its bytes lie at an address that {@link Flight#allocate} has given. */
  record Output(String name, int datatype, long[] shape, long address, long byteSize) {}

  /** The way into the library, which is loaded by the first call. */
  static Native get() {
    return Chosen.NATIVE;
  }

  /** Where a direct buffer begins in memory. */
  long addressOf(ByteBuffer direct);

  long optionsNew();

  void optionsDelete(long options);

  void optionsRepository(long options, String path);

  void optionsControl(long options, int mode);

  void optionsModel(long options, String name);

  void optionsName(long options, String name);

  void optionsExitTimeout(long options, int seconds);

  void optionsLog(long options, boolean info, boolean warn, boolean error, int verbose);

  void optionsBackend(long options, String backend, String name, String value);

  void optionsCache(long options, String cache, String json);

  void optionsMetrics(long options, boolean metrics);

  long serverNew(long options);

  void serverStop(long server);

  void serverDelete(long server);

  boolean isLive(long server);

  boolean isReady(long server);

  boolean isReady(long server, String model, long version);

  String metadata(long server);

  String metadata(long server, String model, long version);

  String config(long server, String model, long version);

  String statistics(long server, String model, long version);

  String index(long server, boolean readyOnly);

  String metrics(long server);

  void load(long server, String model, Map<String, Object> parameters);

  void unload(long server, String model, boolean dependents);

  long requestNew(long server, String model, long version);

  void requestDelete(long request);

  void id(long request, String id);

  void flags(long request, int flags);

  void correlation(long request, long id);

  void correlation(long request, String id);

  void priority(long request, long priority);

  void timeout(long request, long micros);

  void input(long request, String name, int datatype, long[] shape, long address, long byteSize);

  void requestedOutput(long request, String name);

  /** A parameter of a String, Long, Double or Boolean. */
  void parameter(long request, String name, Object value);

  /** Sends a request, whose callbacks come with the key. */
  void send(long server, long request, long key);

  void cancel(long request);

  Answer read(long response);

  void responseDelete(long response);
}
