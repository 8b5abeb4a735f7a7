package io.github.nesoserve;

import java.util.Map;
import java.util.NoSuchElementException;

/**
 * What a model has answered: output tensors by their names. Closing a response closes its tensors;
 * one that is not closed belongs to the garbage collector.
 */
public final class Response implements AutoCloseable {
  private final Native.Answer answer;
  private final Map<String, Tensor> outputs;

  Response(Native.Answer answer, Map<String, Tensor> outputs) {
    this.answer = answer;
    this.outputs = java.util.Collections.unmodifiableMap(outputs);
  }

  /**
   * The model that answered.
   *
   * @return its name
   */
  public String model() {
    return answer.model();
  }

  /**
   * The version of the model that answered.
   *
   * @return its number, 1 or more
   */
  public long version() {
    return answer.version();
  }

  /**
   * The id of the request.
   *
   * @return the id, empty where the request has none
   */
  public String id() {
    return answer.id();
  }

  /**
   * What the model says beside its outputs.
   *
   * @return values of String, Long, Double or Boolean by their names; it cannot be changed
   */
  public Map<String, Object> parameters() {
    return answer.parameters();
  }

  /**
   * All outputs, in the order of the response.
   *
   * @return tensors by their names; it cannot be changed
   */
  public Map<String, Tensor> outputs() {
    return outputs;
  }

  /**
   * One output.
   *
   * @param name its name
   * @return the tensor
   * @throws NoSuchElementException where the response has no such output
   */
  public Tensor output(String name) {
    Tensor found = outputs.get(name);
    if (found == null) {
      throw new NoSuchElementException("the response of %s has no output %s, but %s".formatted(model(), name, outputs.keySet()));
    }
    return found;
  }

  /** Closes the tensors. */
  @Override
  public void close() {
    outputs.values().forEach(Tensor::close);
  }

  @Override
  public String toString() {
    return "Response[%s %d, %s]".formatted(model(), version(), outputs);
  }
}
