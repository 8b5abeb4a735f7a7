package io.github.nesoserve;

/** The datatype of a tensor's elements, in the order of {@code TRITONSERVER_DataType}. */
public enum Datatype {
  /** No type: never that of a tensor. */
  INVALID(0),
  /** One byte, 0 or 1. */
  BOOL(1),
  /** 8 bits without sign; in Java the bits of a {@code byte}. */
  UINT8(1),
  /** 16 bits without sign; in Java the bits of a {@code short}. */
  UINT16(2),
  /** 32 bits without sign; in Java the bits of an {@code int}. */
  UINT32(4),
  /** 64 bits without sign; in Java the bits of a {@code long}. */
  UINT64(8),
  /** {@code byte}. */
  INT8(1),
  /** {@code short}. */
  INT16(2),
  /** {@code int}. */
  INT32(4),
  /** {@code long}. */
  INT64(8),
  /** Half a float; in Java the bits of a {@code short}. */
  FP16(2),
  /** {@code float}. */
  FP32(4),
  /** {@code double}. */
  FP64(8),
  /** Texts or byte strings of any length; in a buffer each stands behind its length, four bytes, the lowest first. */
  BYTES(0),
  /** The upper half of a float; in Java the bits of a {@code short}. */
  BF16(2);

  private static final Datatype[] ALL = values();

  private final int byteSize;

  Datatype(int byteSize) {
    this.byteSize = byteSize;
  }

  /**
   * The size of one element.
   *
   * @return bytes, 0 where elements have no fixed size
   */
  public int byteSize() {
    return byteSize;
  }

  static Datatype of(int number) {
    return number >= 0 && number < ALL.length ? ALL[number] : INVALID;
  }
}
