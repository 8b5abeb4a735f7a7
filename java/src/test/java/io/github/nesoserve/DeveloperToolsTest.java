package io.github.nesoserve;

import static org.bytedeco.tritonserver.global.tritondevelopertoolsserver.CPU;
import static org.bytedeco.tritonserver.global.tritondevelopertoolsserver.EXPLICIT;
import static org.bytedeco.tritonserver.global.tritondevelopertoolsserver.FP32;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.javacpp.FloatPointer;
import org.bytedeco.javacpp.LongPointer;
import org.bytedeco.tritonserver.tritondevelopertoolsserver.GenericInferRequest;
import org.bytedeco.tritonserver.tritondevelopertoolsserver.GenericInferResult;
import org.bytedeco.tritonserver.tritondevelopertoolsserver.GenericTritonServer;
import org.bytedeco.tritonserver.tritondevelopertoolsserver.InferOptions;
import org.bytedeco.tritonserver.tritondevelopertoolsserver.ServerOptions;
import org.bytedeco.tritonserver.tritondevelopertoolsserver.StringVector;
import org.bytedeco.tritonserver.tritondevelopertoolsserver.Tensor;
import org.junit.jupiter.api.Test;

/** The other interface of {@code org.bytedeco:tritonserver}, Triton's developer tools, as it is. */
class DeveloperToolsTest {
  private static float[] floats(Tensor tensor) {
    float[] values = new float[(int) (tensor.byte_size_() / Float.BYTES)];
    new FloatPointer(tensor.buffer_()).get(values);
    return values;
  }

  @Test
  void wrapper() {
    try (Repository repository = new Repository()) {
      ServerOptions options = new ServerOptions(new StringVector(repository.path.toString()));
      options.model_control_mode_(EXPLICIT);
      options.logging_().info_(false);
      options.startup_models_().insert(new BytePointer("identity"));
      GenericTritonServer server = GenericTritonServer.Create(options);
      assertTrue(server.IsServerLive());
      assertTrue(server.IsServerReady());
      assertTrue(server.IsModelReady("identity"));
      assertFalse(server.IsModelReady("texts"));
      assertEquals(1, server.LoadedModels().size());
      server.LoadModel("texts");
      assertEquals(2, server.LoadedModels().size());
      server.UnloadModel("texts");
      assertTrue(server.ModelMetadata("identity").startsWith("{\"name\":\"identity\""));
      assertTrue(server.ModelConfig("identity").contains("\"identity\""));

      float[] values = {1, 2.5f, -3};
      FloatPointer x = new FloatPointer(values);
      Tensor input = new Tensor(new BytePointer(x), 4L * values.length, FP32, new LongPointer(new long[] {3}), CPU, 0);
      GenericInferRequest request = GenericInferRequest.Create(new InferOptions("identity"));
      request.AddInput("X", input);
      GenericInferResult result = server.Infer(request);
      assertFalse(result.HasError(), result::toString);
      assertEquals("identity", result.ModelName().getString());
      assertEquals("1", result.ModelVersion().getString());
      Tensor output = result.Output("Y");
      assertEquals(FP32, output.data_type_());
      assertEquals(3, output.shape_().get());
      assertArrayEquals(values, floats(output));
      assertThrows(RuntimeException.class, () -> result.Output("Z"));

      // Memory of the program's for the output.
      FloatPointer into = new FloatPointer(3);
      request.AddRequestedOutput("Y", new Tensor(new BytePointer(into), 4L * values.length, CPU, 0));
      GenericInferResult again = server.Infer(request);
      assertEquals(into.address(), again.Output("Y").buffer_().address());
      assertArrayEquals(values, floats(again.Output("Y")));

      GenericInferRequest nobody = GenericInferRequest.Create(new InferOptions("nobody"));
      RuntimeException e = assertThrows(RuntimeException.class, () -> server.Infer(nobody));
      assertTrue(e.getMessage().contains("nobody"), e.getMessage());
      assertTrue(server.ServerMetrics().getString().contains("nv_inference_request_success{model=\"identity\""));
      assertTrue(server.ModelStatistics("identity", 1).contains("\"inference_count\":2"));
      server.ServerStop();
      server.deallocate();
    }
  }
}
