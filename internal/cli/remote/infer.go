package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nesoserve/neso/client"
	"github.com/nesoserve/neso/tensor"
)

// inferFlags are the options of `neso infer` as given.
type inferFlags struct {
	inputs, shapes, outputs, parameters, save []string
	id                                        string
	asJSON                                    bool
}

func inferCommand(out io.Writer) *cobra.Command {
	f := &inferFlags{}
	c := command(&cobra.Command{
		Use:   "infer MODEL[:VERSION] --input NAME=VALUE...",
		Short: "Send a running server one request and print the answer",
		Long: `VALUE is JSON (numbers, nested lists), plain text for a BYTES input, or @FILE:
FILE.npy holds an array, FILE.json JSON, any other file the tensor's bytes (for
BYTES: one element). Datatype and shape come from the model; a batch dimension
that VALUE lacks is added. --shape NAME=1,3 says what cannot be told. Of a
decoupled model each response is printed as it comes; of a batch each sample is
asked for itself, one after the other.`,
		Example: `  neso infer add_sub --input 'INPUT0=[1,2,3,4]' --input 'INPUT1=[5,6,7,8]'
  neso infer digits --input image=@seven.npy --output label --save scores=scores.npy`,
		Args: cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, c *client.Client, args []string) error {
		model, version, err := splitVersion(args[0])
		if err != nil {
			return err
		}
		meta, err := c.ModelMetadata(cmd.Context(), model, version)
		if err != nil {
			return err
		}
		q, err := f.request(meta)
		if err != nil {
			return err
		}
		q.Model, q.Version = model, version
		resp, err := c.Infer(cmd.Context(), q)
		if isDecoupled(err) {
			return f.stream(cmd.Context(), out, c, q)
		}
		if err != nil {
			return err
		}
		return f.show(out, resp)
	})
	c.Flags().StringArrayVarP(&f.inputs, "input", "i", nil, "NAME=VALUE or NAME=@FILE; repeatable")
	c.Flags().StringArrayVar(&f.shapes, "shape", nil, "NAME=D0,D1,... of an input, with the batch dimension; repeatable")
	c.Flags().StringArrayVarP(&f.outputs, "output", "o", nil, "an output wanted; default all; repeatable")
	c.Flags().StringArrayVarP(&f.parameters, "parameter", "p", nil, "NAME=VALUE of a request parameter; repeatable")
	c.Flags().StringArrayVar(&f.save, "save", nil,
		"NAME=FILE writes an output to FILE, as an array if it ends in .npy, else its bytes; repeatable")
	c.Flags().StringVar(&f.id, "id", "", "the request's id")
	c.Flags().BoolVar(&f.asJSON, "json", false,
		"print the answer as JSON, all elements in one flat list an output; of a stream each response on a line")
	return c
}

func (f *inferFlags) request(meta *client.Metadata) (*client.Request, error) {
	q := &client.Request{ID: f.id, Outputs: f.outputs, Parameters: map[string]any{}}
	for _, p := range f.parameters {
		name, value, err := splitSetting(p)
		if err != nil {
			return nil, err
		}
		if q.Parameters[name] = any(value); json.Valid([]byte(value)) {
			q.Parameters[name] = json.RawMessage(value)
		}
	}
	shapes := map[string]tensor.Shape{}
	for _, s := range f.shapes {
		name, text, err := splitSetting(s)
		if err != nil {
			return nil, err
		}
		if shapes[name], err = parseShape(text); err != nil {
			return nil, fmt.Errorf("--shape %s: %w", s, err)
		}
	}
	for _, in := range f.inputs {
		name, value, err := splitSetting(in)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(meta.Inputs, func(m client.TensorMetadata) bool { return m.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("--input %s: model %s has no such input, it has %s", name, meta.Name, describe(meta.Inputs))
		}
		t, err := readInput(meta.Inputs[i], value, shapes[name])
		if err != nil {
			return nil, fmt.Errorf("--input %s: %w", name, err)
		}
		q.Inputs = append(q.Inputs, *t)
	}
	if len(q.Inputs) == 0 {
		return nil, fmt.Errorf("expected --input NAME=VALUE for each of %s", describe(meta.Inputs))
	}
	return q, nil
}

func describe(list []client.TensorMetadata) string {
	var names []string
	for _, m := range list {
		names = append(names, m.Name+" "+m.Datatype+" "+tensor.Shape(m.Shape).String())
	}
	return strings.Join(names, ", ")
}

func parseShape(text string) (tensor.Shape, error) {
	shape := tensor.Shape{}
	for d := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(d), 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("expected numbers with commas between, got %q", d)
		}
		shape = append(shape, n)
	}
	return shape, nil
}

// readInput makes the tensor of one --input.
func readInput(m client.TensorMetadata, value string, shape tensor.Shape) (*client.Input, error) {
	d, err := tensor.ParseDatatype(m.Datatype)
	if err != nil {
		return nil, err
	}
	in := &client.Input{Name: m.Name, Datatype: d, Shape: shape}
	file, isFile := strings.CutPrefix(value, "@")
	content := []byte(value)
	if isFile {
		if content, err = os.ReadFile(file); err != nil {
			return nil, err
		}
	}
	switch {
	case isFile && strings.HasSuffix(file, ".npy"):
		array, err := parseNPY(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if array.datatype != d {
			return nil, fmt.Errorf("%s: holds %s, the model expects %s", file, array.datatype, d)
		}
		in.Data = array.data
		if shape == nil {
			in.Shape = addBatch(array.shape, m.Shape)
		}
		return in, nil
	case isFile && !strings.HasSuffix(file, ".json"):
		return in, rawInput(in, m, content)
	}
	if err := jsonInput(in, m, content); err != nil && isFile {
		return nil, fmt.Errorf("%s: %w", file, err)
	} else if err != nil {
		return nil, err
	}
	return in, nil
}

// addBatch puts ones before a shape that has fewer dimensions than the model's.
func addBatch(shape tensor.Shape, model []int64) tensor.Shape {
	for len(shape) < len(model) {
		shape = append(tensor.Shape{1}, shape...)
	}
	return shape
}

// jsonInput takes elements as JSON, or as text for BYTES.
func jsonInput(in *client.Input, m client.TensorMetadata, content []byte) error {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber() // an INT64 does not fit a float
	err := decoder.Decode(&value)
	if err == nil && decoder.More() {
		err = errors.New("more than one value, an array is written [1,2]")
	}
	if err != nil {
		if in.Datatype != tensor.Bytes {
			return fmt.Errorf("expected JSON, got %.60q: %w", content, err)
		}
		value = string(content)
	}
	if _, isList := value.([]any); !isList {
		if in.Datatype == tensor.Bytes {
			if _, isText := value.(string); !isText {
				value = string(content) // 5 means "5"
			}
		}
		value = []any{value}
		if len(m.Shape) == 0 && in.Shape == nil {
			in.Shape = tensor.Shape{}
		}
	}
	if in.Shape == nil {
		var shape tensor.Shape
		for v := value; ; {
			list, ok := v.([]any)
			if !ok {
				break
			}
			shape = append(shape, int64(len(list)))
			if len(list) == 0 {
				break
			}
			v = list[0]
		}
		in.Shape = addBatch(shape, m.Shape)
	}
	text, err := json.Marshal(value)
	in.JSON = text
	return err
}

// rawInput takes the bytes as they are.
func rawInput(in *client.Input, m client.TensorMetadata, content []byte) error {
	in.Data = content
	if in.Datatype == tensor.Bytes {
		in.Data = tensor.AppendElement(nil, content)
		if in.Shape == nil {
			in.Shape = addBatch(nil, m.Shape)
		}
		return nil
	}
	if in.Shape != nil {
		return nil
	}
	in.Shape = slices.Clone(tensor.Shape(m.Shape))
	if len(in.Shape) > 1 && in.Shape[0] < 0 && in.Shape[1:].HasWildcard() {
		in.Shape[0] = 1 // a batch of one leaves the other to be told from the size
	}
	known, open := int64(in.Datatype.Size()), -1
	for i, n := range in.Shape {
		switch {
		case n >= 0:
			known *= n
		case open >= 0:
			return errors.New("more than one dimension is open, say --shape " + in.Name + "=...")
		default:
			open = i
		}
	}
	if open >= 0 {
		if known == 0 || int64(len(content))%known != 0 {
			return fmt.Errorf("%d bytes do not divide into pieces of %d, as %s %s asks for", len(content), known, m.Datatype, tensor.Shape(m.Shape))
		}
		in.Shape[open] = int64(len(content)) / known
	}
	return nil
}

// show prints an answer and writes the outputs that --save names.
func (f *inferFlags) show(out io.Writer, resp *client.Response) error {
	for _, s := range f.save {
		name, file, err := splitSetting(s)
		if err != nil {
			return err
		}
		o := resp.Output(name)
		if o == nil {
			return fmt.Errorf("--save %s: the answer has no such output", name)
		}
		content := o.Data
		if strings.HasSuffix(file, ".npy") {
			if content, err = appendNPY(nil, o); err != nil {
				return fmt.Errorf("--save %s: %w", name, err)
			}
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return fmt.Errorf("--save %s: %w", name, err)
		}
	}
	var b []byte
	if f.asJSON {
		b = appendResponse(b, resp)
	} else {
		for i := range resp.Outputs {
			o := &resp.Outputs[i]
			b = fmt.Appendf(b, "%s %s %s\n", o.Name, o.Datatype, o.Shape)
			b = appendNested(b, o, shownElements)
			b = append(b, '\n')
		}
	}
	_, err := out.Write(b)
	return err
}
