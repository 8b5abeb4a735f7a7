package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nesoserve/neso/client"
	"github.com/nesoserve/neso/internal/elements"
	"github.com/nesoserve/neso/tensor"
)

// isDecoupled reports whether the server has refused a request because its
// model answers with streams.
func isDecoupled(err error) bool {
	refused, ok := errors.AsType[*client.Error](err)
	return ok && strings.Contains(refused.Message, "decoupled transaction policy")
}

// stream asks a decoupled model, one sample of a batch after the other, and prints
// each response as it comes.
func (f *inferFlags) stream(ctx context.Context, out io.Writer, c *client.Client, q *client.Request) error {
	if len(f.save) > 0 {
		return errors.New("--save: a stream of responses is not saved; --json prints each on a line")
	}
	samples, err := splitSamples(ctx, c, q)
	if err != nil {
		return err
	}
	var failed []error
	for i, inputs := range samples {
		sample := *q
		sample.Inputs = inputs
		label := "response"
		if len(samples) > 1 {
			label = fmt.Sprintf("sample %d response", i)
		}
		err := f.streamOne(ctx, out, c, &sample, label)
		if err != nil && len(samples) > 1 {
			err = fmt.Errorf("sample %d: %w", i, err)
		}
		if err == nil {
			continue
		}
		failed = append(failed, err)
		if _, refused := errors.AsType[*client.Error](err); !refused { // it is not of this sample alone
			break
		}
	}
	return errors.Join(failed...)
}

// streamOne prints the responses to one request up to the first error.
func (f *inferFlags) streamOne(ctx context.Context, out io.Writer, c *client.Client, q *client.Request, label string) error {
	n := 0
	for resp, err := range c.InferStream(ctx, q) {
		if err != nil {
			return err
		}
		if !f.asJSON {
			if _, err := fmt.Fprintf(out, "%s %d\n", label, n); err != nil {
				return err
			}
		}
		if err := f.show(out, resp); err != nil {
			return err
		}
		n++
	}
	return nil
}

// splitSamples returns the inputs of each sample of a request, as a stream over HTTP
// takes them: of a model that batches each element of the first dimension is one.
func splitSamples(ctx context.Context, c *client.Client, q *client.Request) ([][]client.Input, error) {
	count := 1
	if first := &q.Inputs[0]; len(first.Shape) > 0 && first.Shape[0] > 1 {
		batches, err := batching(ctx, c, q)
		if err != nil {
			return nil, err
		}
		if batches {
			count = int(first.Shape[0])
		}
	}
	if count == 1 {
		return [][]client.Input{q.Inputs}, nil
	}
	samples := make([][]client.Input, count)
	for i := range q.Inputs {
		pieces, err := splitInput(&q.Inputs[i], count)
		if err != nil {
			return nil, fmt.Errorf("--input %s: %w", q.Inputs[i].Name, err)
		}
		for n, piece := range pieces {
			samples[n] = append(samples[n], piece)
		}
	}
	return samples, nil
}

// batching reports whether the first dimension of a model's tensors is that of
// the batch.
func batching(ctx context.Context, c *client.Client, q *client.Request) (bool, error) {
	text, err := c.ModelConfig(ctx, q.Model, q.Version)
	if err != nil {
		return false, err
	}
	var config struct {
		MaxBatchSize int `json:"max_batch_size"`
	}
	err = json.Unmarshal(text, &config)
	return config.MaxBatchSize > 0, err
}

// splitInput cuts an input along its first dimension, which is to be count.
func splitInput(in *client.Input, count int) ([]client.Input, error) {
	total, err := in.Shape.Elements()
	if err != nil {
		return nil, err
	}
	if len(in.Shape) == 0 || in.Shape[0] != int64(count) {
		return nil, fmt.Errorf("expected %d samples, as the first input has, got shape %s", count, in.Shape)
	}
	data := in.Data
	if in.JSON != nil {
		if data, err = elements.Parse(in.Datatype, in.JSON, total); err != nil {
			return nil, err
		}
	}
	if err := checkSize(in, data, total); err != nil {
		return nil, err
	}
	each := int(total) / count
	pieces := make([]client.Input, count)
	for n := range pieces {
		size := each * in.Datatype.Size()
		if in.Datatype == tensor.Bytes {
			size = 0
			for i, e := range tensor.Elements(data) {
				if i == each {
					break
				}
				size += 4 + len(e)
			}
		}
		pieces[n] = client.Input{Name: in.Name, Datatype: in.Datatype, Shape: slices.Clone(in.Shape), Data: data[:size:size]}
		pieces[n].Shape[0] = 1
		data = data[size:]
	}
	return pieces, nil
}

// checkSize holds the bytes of an input against its shape.
func checkSize(in *client.Input, data []byte, total int64) error {
	size := int64(in.Datatype.Size())
	have := int64(len(data)) / max(1, size)
	if in.Datatype == tensor.Bytes {
		n, err := tensor.CountBytes(data)
		if err != nil {
			return err
		}
		have = int64(n)
	} else if have*size != int64(len(data)) {
		return fmt.Errorf("%d bytes are not whole elements of %s", len(data), in.Datatype)
	}
	if have != total {
		return fmt.Errorf("expected %d elements for shape %s, got %d", total, in.Shape, have)
	}
	return nil
}
