package io.github.nesoserve;

import static org.bytedeco.tritonserver.global.tritonserver.*;

import org.bytedeco.javacpp.IntPointer;
import org.bytedeco.javacpp.LongPointer;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.javacpp.PointerPointer;
import org.bytedeco.tritonserver.tritonserver.*;

/**
 * What the library calls by the bindings of JavaCPP: one callback of each kind for all requests, the
 * key tells them apart.
 */
@SuppressWarnings("rawtypes") // as the bindings declare their callbacks
final class JavaCppCallbacks {
  /** An address as a pointer that owns nothing. */
  static final class Address extends Pointer {
    Address(long address) {
      super((Pointer) null);
      this.address = address;
    }
  }

  final TRITONSERVER_ResponseAllocatorAllocFn_t allocate =
      new TRITONSERVER_ResponseAllocatorAllocFn_t() {
        @Override
        public TRITONSERVER_Error call(
            TRITONSERVER_ResponseAllocator a,
            String name,
            long size,
            int type,
            long id,
            Pointer key,
            PointerPointer buffer,
            PointerPointer bufferUser,
            IntPointer gotType,
            LongPointer gotId) {
          try {
            long address = Flight.allocate(key.address(), size);
            if (address != 0) {
              buffer.put(0, new Address(address));
              gotType.put(0, TRITONSERVER_MEMORY_CPU);
              gotId.put(0, 0);
              return null;
            }
          } catch (Throwable e) {
            return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "no memory for an output: " + e);
          }
          return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNSUPPORTED, "an output has at most 2147483647 bytes in Java");
        }
      };
  final TRITONSERVER_ResponseAllocatorReleaseFn_t keep =
      new TRITONSERVER_ResponseAllocatorReleaseFn_t() {
        @Override
        public TRITONSERVER_Error call(
            TRITONSERVER_ResponseAllocator a, Pointer buffer, Pointer user, long size, int type, long id) {
          return null; // the tensor of the response has it
        }
      };
  final TRITONSERVER_InferenceRequestReleaseFn_t released =
      new TRITONSERVER_InferenceRequestReleaseFn_t() {
        @Override
        public void call(TRITONSERVER_InferenceRequest request, int flags, Pointer key) {
          guard(() -> Flight.released(key.address()));
        }
      };
  final TRITONSERVER_InferenceResponseCompleteFn_t answered =
      new TRITONSERVER_InferenceResponseCompleteFn_t() {
        @Override
        public void call(TRITONSERVER_InferenceResponse response, int flags, Pointer key) {
          guard(() -> Flight.answered(key.address(), response == null ? 0 : response.address(), flags));
        }
      };

  /** Nothing may be thrown into a thread of the library. */
  private static void guard(Runnable action) {
    try {
      action.run();
    } catch (Throwable e) {
      System.getLogger(JavaCpp.class.getName()).log(System.Logger.Level.ERROR, "a callback failed", e);
    }
  }
}
