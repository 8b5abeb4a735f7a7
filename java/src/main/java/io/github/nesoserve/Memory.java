package io.github.nesoserve;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;

/**
 * The bytes of a tensor: a direct buffer and how many hold it, its tensor and each request in flight.
 *
 * <p>The last one to let go gives the buffer back for the next tensor of about its size: a new one
 * costs more than to copy a tensor into it. A buffer that is not given back belongs to the garbage
 * collector as every direct buffer, so there is nothing that could leak, and no view of it that could
 * ever point to memory that is gone.
 */
final class Memory {
  /** What is kept for later use, in bytes: some tensors of a size that is worth it. */
  private static final long KEPT_BYTES = 64L << 20;

  /** Sizes of kept buffers: four steps for every power of two. */
  private static final int STEPS = 4;

  private static final int SMALLEST = 64;

  /** A direct buffer and where it is. */
  private record Chunk(ByteBuffer buffer, long address) {
    static Chunk of(ByteBuffer buffer) {
      return new Chunk(buffer, Native.get().addressOf(buffer));
    }
  }

  private static final AtomicLong KEPT = new AtomicLong();
  private static final List<ConcurrentLinkedQueue<Chunk>> FREE =
      Stream.generate(ConcurrentLinkedQueue<Chunk>::new).limit(STEPS * Integer.SIZE).toList();

  private final Chunk chunk;
  private final int size;
  private final boolean pooled;
  private final AtomicInteger holders = new AtomicInteger(1);

  private Memory(Chunk chunk, int size, boolean pooled) {
    this.chunk = chunk;
    this.size = size;
    this.pooled = pooled;
  }

  /** The place among FREE of buffers for that many bytes. */
  static int step(int size) {
    int n = Math.max(size, SMALLEST);
    int power = Integer.SIZE - 1 - Integer.numberOfLeadingZeros(n);
    int within = (n - (1 << power)) >>> (power - 2);
    return STEPS * power + within + (capacityOf(STEPS * power + within) < n ? 1 : 0);
  }

  /** The size of buffers of a place, at most what a buffer may have. */
  static int capacityOf(int step) {
    int power = step / STEPS;
    long capacity = (1L << power) + (long) (step % STEPS) * (1L << (power - 2));
    return (int) Math.min(capacity, Integer.MAX_VALUE);
  }

  /** Memory of that many bytes, whose content is anything. */
  static Memory of(int size) {
    int step = step(size);
    Chunk kept = FREE.get(step).poll();
    if (kept == null) {
      kept = Chunk.of(ByteBuffer.allocateDirect(capacityOf(step)).order(ByteOrder.nativeOrder()));
    } else {
      KEPT.addAndGet(-kept.buffer.capacity());
    }
    return new Memory(kept, size, true);
  }

  /** The memory of a direct buffer between its position and its limit, which stays the program's. */
  static Memory of(ByteBuffer direct) {
    ByteBuffer slice = direct.slice().order(ByteOrder.nativeOrder());
    return new Memory(Chunk.of(slice), slice.capacity(), false);
  }

  long address() {
    return chunk.address;
  }

  int size() {
    return size;
  }

  /** A view of the bytes, to be written by whoever fills a new tensor. */
  ByteBuffer bytes() {
    return chunk.buffer.slice(0, size).order(ByteOrder.nativeOrder());
  }

  /** Holds the memory; false where nobody did any more. */
  boolean hold() {
    for (; ; ) {
      int n = holders.get();
      if (n == 0) {
        return false;
      }
      if (holders.compareAndSet(n, n + 1)) {
        return true;
      }
    }
  }

  void letGo() {
    if (holders.decrementAndGet() != 0 || !pooled) {
      return;
    }
    int capacity = chunk.buffer.capacity();
    if (KEPT.addAndGet(capacity) > KEPT_BYTES) {
      KEPT.addAndGet(-capacity);
      return;
    }
    FREE.get(step(capacity)).add(chunk);
  }

  /** Bytes that are kept for later use. */
  static long kept() {
    return KEPT.get();
  }
}
