package genai

import (
	"encoding/binary"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/completion"
	"github.com/nesoserve/neso/tensor"
)

// The tensors of a model, called as those of vLLM's models for Triton.
const (
	inText     = "text_input"
	inMessages = "messages"
	inTools    = "tools"
	inStream   = "stream"
	inSampling = "sampling_parameters"

	outText     = "text_output"
	outFinish   = "finish_reason"
	outPrompt   = "num_input_tokens"
	outTokens   = "num_output_tokens"
	outLogprobs = "logprobs"
)

func inputs() []completion.IO {
	var all []completion.IO
	for _, name := range []string{inText, inMessages, inTools, inSampling} {
		all = append(all, completion.IO{Name: name, DataType: tensor.Bytes.ConfigName(), Dims: []int64{1}, Optional: true})
	}
	return append(all, completion.IO{Name: inStream, DataType: tensor.Bool.ConfigName(), Dims: []int64{1}, Optional: true})
}

func outputs() []completion.IO {
	var all []completion.IO
	for _, name := range []string{outText, outFinish, outLogprobs} {
		all = append(all, completion.IO{Name: name, DataType: tensor.Bytes.ConfigName(), Dims: []int64{-1}})
	}
	for _, name := range []string{outPrompt, outTokens} {
		all = append(all, completion.IO{Name: name, DataType: tensor.Uint32.ConfigName(), Dims: []int64{1}})
	}
	return all
}

// text returns the one string of an input; found says whether the request has it.
func text(r *backend.Request, name string) (s string, found bool, err error) {
	t := r.Input(name)
	if t == nil {
		return "", false, nil
	}
	if t.Datatype != tensor.Bytes {
		return "", false, backend.Errorf(backend.InvalidArg, "input '%s' is of %s, expected one string", name, t.Datatype)
	}
	n := 0
	for _, e := range tensor.Elements(t.Data) {
		s, n = string(e), n+1
	}
	if n != 1 {
		return "", false, backend.Errorf(backend.InvalidArg, "input '%s' has %d strings, expected one", name, n)
	}
	return s, true, plainText(name, s)
}

// flag returns the value of an input of one BOOL, false where it is missing.
func flag(r *backend.Request, name string) (bool, error) {
	t := r.Input(name)
	if t == nil {
		return false, nil
	}
	if t.Datatype != tensor.Bool || len(t.Data) != 1 {
		return false, backend.Errorf(backend.InvalidArg, "input '%s' is of %s with %d bytes, expected one BOOL", name, t.Datatype, len(t.Data))
	}
	return t.Data[0] != 0, nil
}

// answer is one response as it is made.
type answer struct {
	texts          []string
	finish         string
	prompt, tokens int
	logprobs       []byte // JSON, nil where none were asked for
}

// response puts an answer into memory of the server's: the outputs that the client wants.
func (m *model) response(r *backend.Request, a *answer) (*backend.Response, error) {
	resp := &backend.Response{}
	put := func(name string, d tensor.Datatype, n int, data []byte) error {
		if len(r.Requested) > 0 && !r.Wants(name) {
			return nil
		}
		buf, err := m.driver.host.Allocator().Allocate(len(data))
		if err != nil {
			return err
		}
		copy(buf.Bytes(), data)
		resp.Outputs = append(resp.Outputs, tensor.Tensor{
			Name: name, Datatype: d, Shape: tensor.Shape{int64(n)}, Data: buf.Bytes()[:len(data)], Buffer: buf,
		})
		return nil
	}
	strings := func(texts ...string) (data []byte) {
		for _, s := range texts {
			data = tensor.AppendElement(data, s)
		}
		return data
	}
	number := func(n int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(n)) }
	err := put(outText, tensor.Bytes, len(a.texts), strings(a.texts...))
	if err == nil {
		err = put(outFinish, tensor.Bytes, 1, strings(a.finish))
	}
	if err == nil && a.logprobs != nil {
		err = put(outLogprobs, tensor.Bytes, 1, strings(string(a.logprobs)))
	}
	if err == nil {
		err = put(outPrompt, tensor.Uint32, 1, number(a.prompt))
	}
	if err == nil {
		err = put(outTokens, tensor.Uint32, 1, number(a.tokens))
	}
	if err != nil {
		resp.Release()
		return nil, err
	}
	return resp, nil
}
