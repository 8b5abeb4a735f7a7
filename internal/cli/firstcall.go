package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/tensor"
)

// describedModel is what is read of a completed configuration to make a first
// call.
type describedModel struct {
	Name         string `json:"name"`
	MaxBatchSize int    `json:"max_batch_size"`
	Input        []struct {
		Name     string  `json:"name"`
		DataType string  `json:"data_type"`
		Dims     []int64 `json:"dims"`
		Optional bool    `json:"optional"`
	} `json:"input"`
	Transaction struct {
		Decoupled bool `json:"decoupled"`
	} `json:"model_transaction_policy"`
}

// inlineElements is up to how many elements a first call shows; beyond, its
// tensors are zero bytes behind the JSON.
const inlineElements = 32

// firstCall returns a command line that calls the model: a request of zeros,
// with 1 for every open dimension. address is that of the HTTP front end.
func firstCall(config []byte, address string) (string, error) {
	var m describedModel
	if err := json.Unmarshal(config, &m); err != nil {
		return "", err
	}
	url := "http://" + address + "/v2/models/" + m.Name + "/infer"
	if m.Transaction.Decoupled {
		url = strings.TrimSuffix(url, "/infer") + "/generate_stream"
	}
	var inputs []string
	binary, inline := int64(0), int64(0)
	type input struct {
		name, datatype string
		shape          tensor.Shape
		elements       int64
		d              tensor.Datatype
	}
	var all []input
	for _, in := range m.Input {
		if in.Optional {
			continue
		}
		name := strings.TrimPrefix(in.DataType, "TYPE_")
		if name == "STRING" {
			name = "BYTES"
		}
		shape := tensor.Shape{}
		if m.MaxBatchSize > 0 {
			shape = append(shape, 1)
		}
		for _, d := range in.Dims {
			shape = append(shape, max(1, d))
		}
		n, err := shape.Elements()
		if err != nil {
			return "", err
		}
		all = append(all, input{in.Name, name, shape, n, tensor.LookupDatatype(name)})
		inline += n
	}
	asJSON := inline <= inlineElements
	for _, in := range all {
		asJSON = asJSON && in.d != tensor.FP16 && in.d != tensor.BF16
	}
	for _, in := range all {
		head := fmt.Sprintf(`{"name":%q,"datatype":%q,"shape":%s,`, in.name, in.datatype, in.shape)
		if asJSON {
			inputs = append(inputs, head+`"data":[`+strings.TrimSuffix(strings.Repeat(zero(in.d)+",", int(in.elements)), ",")+`]}`)
			continue
		}
		size, err := tensor.ByteSize(in.d, in.shape)
		if err != nil {
			return "", err
		}
		binary += size
		inputs = append(inputs, head+`"parameters":{"binary_data_size":`+strconv.FormatInt(size, 10)+`}}`)
	}
	body := `{"inputs":[` + strings.Join(inputs, ",") + `]}`
	if asJSON {
		return "curl -s " + url + " -d '" + body + "'", nil
	}
	return fmt.Sprintf("(printf %%s '%s'; head -c %d /dev/zero) | curl -s %s -H 'Inference-Header-Content-Length: %d' --data-binary @-", body,
		binary, url, len(body)), nil
}

// zero is a value of the datatype in JSON.
func zero(d tensor.Datatype) string {
	switch d {
	case tensor.Bytes:
		return `"x"`
	case tensor.Bool:
		return "false"
	default:
		return "0"
	}
}
