package nesotest

import (
	"fmt"
	"strings"
)

// EchoConfig is the configuration of a model of Echo, whose name is "echo".
const EchoConfig = `backend: "echo"
input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] } ]
`

// EchoJSON is EchoConfig in the form of a load request.
const EchoJSON = `{"backend":"echo","input":[{"name":"IN","data_type":"TYPE_FP32","dims":[-1]}],"output":[{"name":"OUT",` +
	`"data_type":"TYPE_FP32","dims":[-1]}]}`

// BoundJSON is the configuration of a model that a program binds.
const BoundJSON = `{"backend":"python","max_batch_size":4,"dynamic_batching":{},"input":[{"name":"IN","data_type":"TYPE_FP32",` +
	`"dims":[-1]}],"output":[{"name":"OUT","data_type":"TYPE_FP32","dims":[-1]}]}`

// EnsembleConfig chains models, each with input IN and output OUT.
func EnsembleConfig(models ...string) string {
	var b strings.Builder
	b.WriteString(`platform: "ensemble"
input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] } ]
ensemble_scheduling {
`)
	from := "IN"
	for i, m := range models {
		to := fmt.Sprint("t", i)
		if i == len(models)-1 {
			to = "OUT"
		}
		fmt.Fprintf(&b, "step { model_name: %q model_version: -1 input_map { key: \"IN\" value: %q } output_map { key: \"OUT\" value: %q } }\n",
			m, from, to)
		from = to
	}
	b.WriteString("}\n")
	return b.String()
}
