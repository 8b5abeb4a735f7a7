package io.github.nesoserve;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;

/**
 * Elements of one datatype in a shape, row by row, in the byte order of the machine. A tensor does not
 * change.
 *
 * <p>Its memory is that of a direct buffer, which the server reads in place. {@link #close} gives it
 * back; a tensor that is not closed belongs to the garbage collector. Closing a tensor that is the
 * input of requests in flight is fine: they hold its memory.
 *
 * <p>A tensor has at most 2,147,483,647 bytes.
 */
public final class Tensor implements AutoCloseable {
  /** As many as a shape may have. */
  private static final int MOST_DIMENSIONS = 32;

  private final Datatype datatype;
  private final long[] shape;
  private final Memory memory;
  private boolean closed;

  /** Takes the hold of the memory that the caller has. */
  Tensor(Datatype datatype, long[] shape, Memory memory) {
    this.datatype = datatype;
    this.shape = shape;
    this.memory = memory;
  }

  /**
   * A tensor of floats, {@code FP32}.
   *
   * @param values the elements, which are copied
   * @param shape the size of each dimension; none means one dimension
   * @return a new tensor
   */
  public static Tensor of(float[] values, long... shape) {
    Tensor made = make(Datatype.FP32, values.length, shape);
    made.memory.bytes().asFloatBuffer().put(values);
    return made;
  }

  /**
   * A tensor of doubles, {@code FP64}.
   *
   * @param values the elements, which are copied
   * @param shape the size of each dimension; none means one dimension
   * @return a new tensor
   */
  public static Tensor of(double[] values, long... shape) {
    Tensor made = make(Datatype.FP64, values.length, shape);
    made.memory.bytes().asDoubleBuffer().put(values);
    return made;
  }

  /**
   * A tensor of ints, {@code INT32}.
   *
   * @param values the elements, which are copied
   * @param shape the size of each dimension; none means one dimension
   * @return a new tensor
   */
  public static Tensor of(int[] values, long... shape) {
    return of(Datatype.INT32, values, shape);
  }

  /**
   * A tensor of 32 bits each.
   *
   * @param datatype {@code INT32} or {@code UINT32}
   * @param values the elements, or their bits; they are copied
   * @param shape the size of each dimension; none means one dimension
   * @return a new tensor
   */
  public static Tensor of(Datatype datatype, int[] values, long... shape) {
    require(datatype, "int[]", Datatype.INT32, Datatype.UINT32);
    Tensor made = make(datatype, values.length, shape);
    made.memory.bytes().asIntBuffer().put(values);
    return made;
  }

  /**
   * A tensor of longs, {@code INT64}.
   *
   * @param values the elements, which are copied
   * @param shape the size of each dimension; none means one dimension
   * @return a new tensor
   */
  public static Tensor of(long[] values, long... shape) {
    return of(Datatype.INT64, values, shape);
  }

  /**
   * A tensor of 64 bits each.
   *
   * @param datatype {@code INT64} or {@code UINT64}
   * @param values the elements, or their bits; they are copied
   * @param shape the size of each dimension; none means one dimension
   * @return a new tensor
   */
  public static Tensor of(Datatype datatype, long[] values, long... shape) {
    require(datatype, "long[]", Datatype.INT64, Datatype.UINT64);
    Tensor made = make(datatype, values.length, shape);
    made.memory.bytes().asLongBuffer().put(values);
    return made;
  }

  /**
   * A tensor of 16 bits each.
   *
   * @param datatype {@code INT16}, {@code UINT16}, {@code FP16} or {@code BF16}
   * @param values the elements, or their bits; they are copied
   * @param shape the size of each dimension; none means one dimension
   * @return a new tensor
   */
  public static Tensor of(Datatype datatype, short[] values, long... shape) {
    require(datatype, "short[]", Datatype.INT16, Datatype.UINT16, Datatype.FP16, Datatype.BF16);
    Tensor made = make(datatype, values.length, shape);
    made.memory.bytes().asShortBuffer().put(values);
    return made;
  }

  /**
   * A tensor of 8 bits each.
   *
   * @param datatype {@code INT8} or {@code UINT8}
   * @param values the elements, or their bits; they are copied
   * @param shape the size of each dimension; none means one dimension
   * @return a new tensor
   */
  public static Tensor of(Datatype datatype, byte[] values, long... shape) {
    require(datatype, "byte[]", Datatype.INT8, Datatype.UINT8);
    Tensor made = make(datatype, values.length, shape);
    made.memory.bytes().put(values);
    return made;
  }

  /**
   * A tensor of truth values, {@code BOOL}.
   *
   * @param values the elements, which are copied
   * @param shape the size of each dimension; none means one dimension
   * @return a new tensor
   */
  public static Tensor of(boolean[] values, long... shape) {
    Tensor made = make(Datatype.BOOL, values.length, shape);
    ByteBuffer bytes = made.memory.bytes();
    for (boolean value : values) {
      bytes.put((byte) (value ? 1 : 0));
    }
    return made;
  }

  /**
   * A tensor of texts, {@code BYTES}, each as UTF-8.
   *
   * @param values the elements, none of them null
   * @param shape the size of each dimension; none means one dimension
   * @return a new tensor
   */
  public static Tensor of(String[] values, long... shape) {
    return ofBytes(Arrays.stream(values).map(v -> v.getBytes(StandardCharsets.UTF_8)).toList(), shape);
  }

  /**
   * A tensor of byte strings, {@code BYTES}.
   *
   * @param values the elements, none of them null; they are copied
   * @param shape the size of each dimension; none means one dimension
   * @return a new tensor
   */
  public static Tensor ofBytes(List<byte[]> values, long... shape) {
    long[] checked = shape(values.size(), shape);
    long size = values.stream().mapToLong(v -> Integer.BYTES + (long) v.length).sum();
    Tensor made = new Tensor(Datatype.BYTES, checked, Memory.of(fits(size)));
    ByteBuffer bytes = made.memory.bytes().order(ByteOrder.LITTLE_ENDIAN);
    for (byte[] value : values) {
      bytes.putInt(value.length).put(value);
    }
    return made;
  }

  /**
   * A tensor of what lies in a buffer between its position and its limit. Of a direct buffer nothing is
   * copied: the program must leave these bytes alone while the tensor, or a request with it, is in use.
   * Of any other buffer the bytes are copied. The buffer's position stays where it is.
   *
   * @param datatype any but {@code INVALID}; {@code BYTES} as {@link Datatype#BYTES} says
   * @param buffer the bytes, in the order of the machine
   * @param shape the size of each dimension; at least one, or none for a single element
   * @return a new tensor
   */
  public static Tensor wrap(Datatype datatype, ByteBuffer buffer, long... shape) {
    if (datatype == Datatype.INVALID) {
      throw new IllegalArgumentException("a tensor cannot be of the datatype INVALID");
    }
    long count = count(shape);
    long want = count * datatype.byteSize();
    if (datatype != Datatype.BYTES && buffer.remaining() != want) {
      throw new IllegalArgumentException(
          "%s %s needs %d bytes, the buffer has %d".formatted(datatype, Arrays.toString(shape), want, buffer.remaining()));
    }
    if (datatype == Datatype.BYTES) {
      elements(buffer.slice(), count);
    }
    Memory memory;
    if (buffer.isDirect()) {
      memory = Memory.of(buffer);
    } else {
      memory = Memory.of(buffer.remaining());
      memory.bytes().put(buffer.slice());
    }
    return new Tensor(datatype, shape.clone(), memory);
  }

  private static void require(Datatype datatype, String of, Datatype... allowed) {
    if (!Arrays.asList(allowed).contains(datatype)) {
      throw new IllegalArgumentException("%s can be a tensor of %s, not of %s".formatted(of, Arrays.toString(allowed), datatype));
    }
  }

  private static Tensor make(Datatype datatype, int count, long[] shape) {
    return new Tensor(datatype, shape(count, shape), Memory.of(fits((long) count * datatype.byteSize())));
  }

  private static int fits(long size) {
    if (size > Integer.MAX_VALUE) {
      throw new IllegalArgumentException("a tensor has at most %d bytes, not %d".formatted(Integer.MAX_VALUE, size));
    }
    return (int) size;
  }

  /** The shape of so many values, if it is one. */
  private static long[] shape(int count, long[] shape) {
    if (shape.length == 0) {
      return new long[] {count};
    }
    if (count(shape) != count) {
      throw new IllegalArgumentException(
          "the shape %s has %d elements, there are %d values".formatted(Arrays.toString(shape), count(shape), count));
    }
    return shape.clone();
  }

  private static long count(long[] shape) {
    if (shape.length > MOST_DIMENSIONS) {
      throw new IllegalArgumentException("a shape has at most %d dimensions, not %d".formatted(MOST_DIMENSIONS, shape.length));
    }
    long count = 1;
    for (long dimension : shape) {
      if (dimension < 0) {
        throw new IllegalArgumentException("the shape %s has a dimension below 0".formatted(Arrays.toString(shape)));
      }
      if (dimension != 0 && count > Integer.MAX_VALUE / dimension) {
        throw new IllegalArgumentException("the shape %s has too many elements".formatted(Arrays.toString(shape)));
      }
      count *= dimension;
    }
    return count;
  }

  /** The elements of BYTES in a buffer, which must be so many and end where it ends. */
  private static List<byte[]> elements(ByteBuffer buffer, long count) {
    ByteBuffer bytes = buffer.order(ByteOrder.LITTLE_ENDIAN);
    List<byte[]> all = new ArrayList<>();
    while (bytes.hasRemaining()) {
      int at = bytes.position();
      if (bytes.remaining() < Integer.BYTES || Integer.toUnsignedLong(bytes.getInt(at)) > bytes.remaining() - Integer.BYTES) {
        throw new IllegalArgumentException("element %d of BYTES ends behind the buffer's %d bytes".formatted(all.size(), bytes.limit()));
      }
      byte[] element = new byte[bytes.getInt()];
      bytes.get(element);
      all.add(element);
    }
    if (all.size() != count) {
      throw new IllegalArgumentException("the buffer has %d elements of BYTES, the shape has %d".formatted(all.size(), count));
    }
    return all;
  }

  /**
   * The datatype of the elements.
   *
   * @return never {@code INVALID}
   */
  public Datatype datatype() {
    return datatype;
  }

  /**
   * The size of each dimension.
   *
   * @return a copy
   */
  public long[] shape() {
    return shape.clone();
  }

  /**
   * The bytes of all elements.
   *
   * @return a number of bytes
   */
  public int byteSize() {
    return memory.size();
  }

  /**
   * The bytes of the elements where they lie, in the order of the machine. What it shows is the
   * tensor's until the tensor is closed, and anything after that.
   *
   * @return a view that cannot be written to
   */
  public synchronized ByteBuffer buffer() {
    alive();
    return memory.bytes().asReadOnlyBuffer().order(ByteOrder.nativeOrder());
  }

  /**
   * A copy of the elements of {@code FP32}.
   *
   * @return all elements, row by row
   */
  public float[] toFloats() {
    float[] values = new float[elements(Datatype.FP32)];
    read(b -> b.asFloatBuffer().get(values));
    return values;
  }

  /**
   * A copy of the elements of {@code FP64}.
   *
   * @return all elements, row by row
   */
  public double[] toDoubles() {
    double[] values = new double[elements(Datatype.FP64)];
    read(b -> b.asDoubleBuffer().get(values));
    return values;
  }

  /**
   * A copy of the elements of {@code INT32}, or the bits of {@code UINT32}.
   *
   * @return all elements, row by row
   */
  public int[] toInts() {
    int[] values = new int[elements(Datatype.INT32, Datatype.UINT32)];
    read(b -> b.asIntBuffer().get(values));
    return values;
  }

  /**
   * A copy of the elements of {@code INT64}, or the bits of {@code UINT64}.
   *
   * @return all elements, row by row
   */
  public long[] toLongs() {
    long[] values = new long[elements(Datatype.INT64, Datatype.UINT64)];
    read(b -> b.asLongBuffer().get(values));
    return values;
  }

  /**
   * A copy of the elements of {@code INT16}, or the bits of {@code UINT16}, {@code FP16}, {@code BF16}.
   *
   * @return all elements, row by row
   */
  public short[] toShorts() {
    short[] values = new short[elements(Datatype.INT16, Datatype.UINT16, Datatype.FP16, Datatype.BF16)];
    read(b -> b.asShortBuffer().get(values));
    return values;
  }

  /**
   * A copy of the elements of {@code INT8}, or the bits of {@code UINT8}.
   *
   * @return all elements, row by row
   */
  public byte[] toByteArray() {
    byte[] values = new byte[elements(Datatype.INT8, Datatype.UINT8)];
    read(b -> b.get(values));
    return values;
  }

  /**
   * A copy of the elements of {@code BOOL}.
   *
   * @return all elements, row by row
   */
  public boolean[] toBooleans() {
    boolean[] values = new boolean[elements(Datatype.BOOL)];
    read(
        b -> {
          for (int i = 0; i < values.length; i++) {
            values[i] = b.get(i) != 0;
          }
        });
    return values;
  }

  /**
   * A copy of the elements of {@code BYTES}, each read as UTF-8.
   *
   * @return all elements, row by row
   */
  public String[] toStrings() {
    return toBytes().stream().map(b -> new String(b, StandardCharsets.UTF_8)).toArray(String[]::new);
  }

  /**
   * A copy of the elements of {@code BYTES}.
   *
   * @return all elements, row by row
   */
  public List<byte[]> toBytes() {
    elements(Datatype.BYTES);
    List<byte[]> values = new ArrayList<>();
    read(b -> values.addAll(elements(b, count(shape))));
    return values;
  }

  private int elements(Datatype... allowed) {
    if (!Arrays.asList(allowed).contains(datatype)) {
      throw new IllegalStateException("the tensor is of %s, not of %s".formatted(datatype, Arrays.toString(allowed)));
    }
    return datatype.byteSize() == 0 ? 0 : memory.size() / datatype.byteSize();
  }

  /** What reads holds the memory, so that a close meanwhile takes nothing away. */
  private void read(java.util.function.Consumer<ByteBuffer> reader) {
    Memory held = hold();
    try {
      reader.accept(held.bytes());
    } finally {
      held.letGo();
    }
  }

  /** The memory with one more holder, for a request in flight. */
  synchronized Memory hold() {
    alive();
    memory.hold();
    return memory;
  }

  private void alive() {
    if (closed) {
      throw new IllegalStateException("the tensor is closed");
    }
  }

  /** Gives the memory back, when nothing in flight holds it any more. */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      memory.letGo();
    }
  }

  @Override
  public String toString() {
    return "Tensor[%s %s, %d bytes]".formatted(Objects.toString(datatype), Arrays.toString(shape), byteSize());
  }
}
