package io.github.nesoserve;

import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * What is asked of a model: inputs by their names, and what else a request may have. A request does not
 * change, and may be sent any number of times, by several threads at once. It has nothing to close; its
 * tensors must be open when it is sent.
 */
public final class Request {
  private static final int SEQUENCE_START = 1;
  private static final int SEQUENCE_END = 2;

  private final Builder made;

  private Request(Builder made) {
    this.made = made;
  }

  /**
   * A request to a model.
   *
   * @param model its name
   * @return a builder, with the newest version that the model's policy serves, and nothing else
   */
  public static Builder to(String model) {
    return new Builder(text("model", model));
  }

  String model() {
    return made.model;
  }

  long version() {
    return made.version;
  }

  /** A text for the library, where a zero would end it. */
  static String text(String what, String value) {
    Objects.requireNonNull(value, what);
    if (value.indexOf(0) >= 0) {
      throw new IllegalArgumentException("%s: a text with the character 0: %s".formatted(what, value.replace('\0', '?')));
    }
    return value;
  }

  /** Gives everything to a request of the library; memory that it holds from now on is added to a list. */
  void fill(Native library, long handle, List<Memory> held) {
    for (Map.Entry<String, Tensor> input : made.inputs.entrySet()) {
      Tensor tensor = input.getValue();
      Memory memory = tensor.hold();
      held.add(memory);
      library.input(handle, input.getKey(), tensor.datatype().ordinal(), tensor.shape(), memory.address(), memory.size());
    }
    for (String output : made.outputs) {
      library.requestedOutput(handle, output);
    }
    made.parameters.forEach((name, value) -> library.parameter(handle, name, value));
    if (!made.id.isEmpty()) {
      library.id(handle, made.id);
    }
    if (made.sequence instanceof Long id) {
      library.correlation(handle, id);
    } else if (made.sequence instanceof String id) {
      library.correlation(handle, id);
    }
    if (made.flags != 0) {
      library.flags(handle, made.flags);
    }
    if (made.priority != 0) {
      library.priority(handle, made.priority);
    }
    if (made.timeoutMicros != 0) {
      library.timeout(handle, made.timeoutMicros);
    }
  }

  /** Collects what a request has. It is for one thread. */
  public static final class Builder {
    private final String model;
    private final Map<String, Tensor> inputs = new LinkedHashMap<>();
    private final List<String> outputs = new ArrayList<>();
    private final Map<String, Object> parameters = new LinkedHashMap<>();
    private long version = -1;
    private String id = "";
    private Object sequence;
    private int flags;
    private long priority;
    private long timeoutMicros;

    private Builder(String model) {
      this.model = model;
    }

    private Builder(Builder of) {
      model = of.model;
      inputs.putAll(of.inputs);
      outputs.addAll(of.outputs);
      parameters.putAll(of.parameters);
      version = of.version;
      id = of.id;
      sequence = of.sequence;
      flags = of.flags;
      priority = of.priority;
      timeoutMicros = of.timeoutMicros;
    }

    /**
     * Asks for one version of the model.
     *
     * @param version its number, 1 or more
     * @return this builder
     */
    public Builder version(long version) {
      if (version < 1) {
        throw new IllegalArgumentException("a version is 1 or more, not " + version);
      }
      this.version = version;
      return this;
    }

    /**
     * Adds an input.
     *
     * @param name its name in the model's configuration
     * @param tensor its elements; the request does not close it
     * @return this builder
     * @throws IllegalArgumentException where the input is there already
     */
    public Builder input(String name, Tensor tensor) {
      if (inputs.putIfAbsent(text("input", name), Objects.requireNonNull(tensor, "tensor")) != null) {
        throw new IllegalArgumentException("the request has the input %s already".formatted(name));
      }
      return this;
    }

    /**
     * Asks for an output. Without any the model answers all that it has.
     *
     * @param name its name in the model's configuration
     * @return this builder
     */
    public Builder output(String name) {
      outputs.add(text("output", name));
      return this;
    }

    /**
     * The id, which comes back with the responses and stands in the server's log.
     *
     * @param id any text; none by default
     * @return this builder
     */
    public Builder id(String id) {
      this.id = text("id", id);
      return this;
    }

    /**
     * A parameter for the model.
     *
     * @param name its name
     * @param value a String, Boolean, Double, Long or Integer
     * @return this builder
     */
    public Builder parameter(String name, Object value) {
      Object taken = value instanceof Integer i ? Long.valueOf(i) : value;
      if (!(taken instanceof String || taken instanceof Long || taken instanceof Double || taken instanceof Boolean)) {
        throw new IllegalArgumentException(
            "parameter %s: a String, Boolean, Double, Long or Integer is wanted, not %s"
                .formatted(name, value == null ? "null" : value.getClass().getName()));
      }
      parameters.put(text("parameter", name), taken instanceof String s ? text("parameter", s) : taken);
      return this;
    }

    /**
     * Makes the request one of a sequence.
     *
     * @param id the correlation id, not 0
     * @param start whether it is the first one
     * @param end whether it is the last one
     * @return this builder
     */
    public Builder sequence(long id, boolean start, boolean end) {
      if (id == 0) {
        throw new IllegalArgumentException("a sequence has an id that is not 0");
      }
      return sequenced(id, start, end);
    }

    /**
     * Makes the request one of a sequence whose id is a text.
     *
     * @param id the correlation id, not empty, at most 128 characters
     * @param start whether it is the first one
     * @param end whether it is the last one
     * @return this builder
     */
    public Builder sequence(String id, boolean start, boolean end) {
      if (text("sequence", id).isEmpty()) {
        throw new IllegalArgumentException("a sequence has an id that is not empty");
      }
      return sequenced(id, start, end);
    }

    private Builder sequenced(Object id, boolean start, boolean end) {
      sequence = id;
      flags = (start ? SEQUENCE_START : 0) | (end ? SEQUENCE_END : 0);
      return this;
    }

    /**
     * The priority among requests that wait.
     *
     * @param priority 1 is the first; 0, the default, is what the model's configuration says
     * @return this builder
     */
    public Builder priority(long priority) {
      if (priority < 0) {
        throw new IllegalArgumentException("a priority is 0 or more, not " + priority);
      }
      this.priority = priority;
      return this;
    }

    /**
     * How long the request may wait for the model, in steps of a microsecond.
     *
     * @param timeout more than 0; what the model's configuration says by default
     * @return this builder
     */
    public Builder timeout(Duration timeout) {
      if (timeout.isNegative() || timeout.toNanos() < 1000) {
        throw new IllegalArgumentException("a timeout is one microsecond or more, not " + timeout);
      }
      timeoutMicros = timeout.toNanos() / 1000;
      return this;
    }

    /**
     * The request as it is now.
     *
     * @return a request, which later changes of this builder leave alone
     */
    public Request build() {
      return new Request(new Builder(this));
    }
  }
}
