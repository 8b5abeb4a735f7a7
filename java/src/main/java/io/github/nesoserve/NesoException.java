package io.github.nesoserve;

/** An error that the server has answered: its code, and its text as the message. */
public final class NesoException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** The kind of the error. */
  private final ErrorCode code;

  NesoException(ErrorCode code, String message) {
    super(message);
    this.code = code;
  }

  NesoException(ErrorCode code, String message, Throwable cause) {
    super(message, cause);
    this.code = code;
  }

  /**
   * The kind of the error.
   *
   * @return the code, never null
   */
  public ErrorCode code() {
    return code;
  }
}
