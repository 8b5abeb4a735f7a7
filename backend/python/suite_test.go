//go:build unix

package python

import (
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/backendtest"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestSuite(t *testing.T) {
	model := func(t *testing.T, d tensor.Datatype, batch int, source string) backend.Config {
		return configOf(writeModel(t, source), testOptions{batch: batch, inputs: []backend.IO{{Name: "IN", Datatype: d, Dims: tensor.Shape{-1}}}})
	}
	backendtest.Run(t, backendtest.Suite{
		Driver:   New(Options{Python: nesotest.Python(t)}),
		Settings: backend.Settings{Values: map[string]string{"stub-timeout-seconds": "300"}}, // as newDriver
		Identity: func(t *testing.T, d tensor.Datatype, batch int) backend.Config {
			if d == tensor.BF16 {
				return model(t, d, batch, `
class TritonPythonModel:
	def execute(self, requests):
		return [pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUT", pb_utils.get_input_tensor_by_name(r, "IN"))]) for r in requests]
`)
			}
			return model(t, d, batch, identity)
		},
		Failing: func(t *testing.T) backend.Config {
			return model(t, tensor.Int32, 8, `
class TritonPythonModel:
	def execute(self, requests):
		out = []
		for r in requests:
			x = pb_utils.get_input_tensor_by_name(r, "IN").as_numpy()
			if (x < 0).any():
				out.append(pb_utils.InferenceResponse(error=pb_utils.TritonError("negative")))
			else:
				out.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x)]))
		return out
`)
		},
		FailingBatch: func(t *testing.T) backend.Config {
			return model(t, tensor.Int32, 8, `
class TritonPythonModel:
	def execute(self, requests):
		arrays = [pb_utils.get_input_tensor_by_name(r, "IN").as_numpy() for r in requests]
		if any((x < 0).any() for x in arrays):
			raise ValueError("negative")
		return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x)]) for x in arrays]
`)
		},
		Calling: func(t *testing.T) backend.Config {
			return model(t, tensor.Int32, 8, `
class TritonPythonModel:
	def execute(self, requests):
		out = []
		for r in requests:
			call = pb_utils.InferenceRequest(model_name="echo", requested_output_names=["OUT"], inputs=[pb_utils.get_input_tensor_by_name(r, "IN")])
			answer = call.exec()
			if answer.has_error():
				out.append(pb_utils.InferenceResponse(error=answer.error()))
			else:
				out.append(pb_utils.InferenceResponse(answer.output_tensors()))
		return out
`)
		},
		Decoupled: func(t *testing.T, n int) (backend.Config, []tensor.Tensor) {
			cfg := model(t, tensor.FP32, 0, `
class TritonPythonModel:
	def execute(self, requests):
		for r in requests:
			sender = r.get_response_sender()
			x = pb_utils.get_input_tensor_by_name(r, "IN").as_numpy()
			for i in range(int(x[0])):
				if sender.is_cancelled():
					break
				sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x)]))
			sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
`)
			cfg.Decoupled = true
			return cfg, []tensor.Tensor{floats("IN", float32(n))}
		},
		Slow: func(t *testing.T) (backend.Config, []tensor.Tensor) {
			return model(t, tensor.FP32, 0, `
class TritonPythonModel:
	def execute(self, requests):
		end = time.time() + 60
		while time.time() < end and not all(r.is_cancelled() for r in requests):
			time.sleep(0.005)
		return [pb_utils.InferenceResponse(error=pb_utils.TritonError("cancelled", pb_utils.TritonError.CANCELLED)) for r in requests]
`), []tensor.Tensor{floats("IN", 1)}
		},
		Broken: func(t *testing.T) backend.Config {
			return model(t, tensor.FP32, 0, "raise RuntimeError('broken')\n")
		},
	})
	checkNoChildren(t)
}
