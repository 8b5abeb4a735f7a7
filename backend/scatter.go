package backend

import (
	"fmt"

	"github.com/nesoserve/neso/tensor"
)

// Scatter answers every request of a gathered batch with its rows of the
// outputs, which are concatenated along the batch axis in request order. It
// consumes the outputs' references. Rows are views, nothing is copied. An
// output whose first dimension is not Batch.Size is an error for the whole
// batch, which is returned and not yet answered.
func (b *Batch) Scatter(outputs []tensor.Tensor) error {
	defer func() {
		for i := range outputs {
			outputs[i].Release()
		}
	}()
	for i := range outputs {
		o := &outputs[i]
		if len(o.Shape) == 0 || o.Shape[0] != int64(b.Size) {
			return Errorf(Internal, "output '%s' has shape %s, expected the batch size %d as its first dimension", o.Name, o.Shape, b.Size)
		}
		if o.Datatype == tensor.Bytes {
			n, err := tensor.CountBytes(o.Data)
			if err != nil {
				return fmt.Errorf("output '%s': %w", o.Name, err)
			}
			if want, _ := o.Shape.Elements(); int64(n) != want {
				return Errorf(Internal, "output '%s' has %d elements, expected %d for shape %s", o.Name, n, want, o.Shape)
			}
		} else if want, err := tensor.ByteSize(o.Datatype, o.Shape); err != nil || int64(len(o.Data)) != want {
			return Errorf(Internal, "output '%s' has %d bytes, expected %d for shape %s", o.Name, len(o.Data), want, o.Shape)
		}
	}
	rest := make([][]byte, len(outputs))
	for i := range outputs {
		rest[i] = outputs[i].Data
	}
	for _, r := range b.Requests {
		rows := max(1, r.BatchSize)
		resp := &Response{Outputs: make([]tensor.Tensor, 0, len(outputs))}
		for i := range outputs {
			o := &outputs[i]
			size := len(o.Data) / max(1, b.Size) * rows
			if o.Datatype == tensor.Bytes {
				elements, _ := o.Shape[1:].Elements()
				size, _ = tensor.SplitBytes(rest[i], int(elements)*rows)
			}
			part := *o
			part.Shape = o.Shape.Clone()
			part.Shape[0] = int64(rows)
			part.Data, rest[i] = rest[i][:size:size], rest[i][size:]
			if !r.Wants(o.Name) {
				continue
			}
			part.Retain()
			resp.Outputs = append(resp.Outputs, part)
		}
		_ = r.Respond(resp, true) // a cancelled request needs nothing more
	}
	return nil
}
