package io.github.nesoserve;

/** What kind of error the server has answered: the codes of {@code TRITONSERVER_Error_Code}. */
public enum ErrorCode {
  /** Nothing more is known. */
  UNKNOWN,
  /** A fault of the server or of a model. */
  INTERNAL,
  /** There is no such model, version, or other thing. */
  NOT_FOUND,
  /** The request, an option or an argument is wrong. */
  INVALID_ARG,
  /** The server or a model is not there for the moment: not loaded, stopping, too busy. */
  UNAVAILABLE,
  /** The model or the server cannot do this. */
  UNSUPPORTED,
  /** It is there already. */
  ALREADY_EXISTS,
  /** The request was cancelled. */
  CANCELLED;

  private static final ErrorCode[] ALL = values();

  /** The code of that number, {@code UNKNOWN} where there is none. */
  static ErrorCode of(int number) {
    return number >= 0 && number < ALL.length ? ALL[number] : UNKNOWN;
  }
}
