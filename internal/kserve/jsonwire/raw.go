package jsonwire

import (
	"encoding/binary"
	"io"
	"math"
	"strconv"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

// DecodeRaw fills r from a body that is nothing but the only input of the
// model; everything else follows from the configuration. The output's default
// is binary. Errors are as those of Decoder.Decode.
func DecodeRaw(r *backend.Request, c *kserve.ResponseOptions, m kserve.Target, body *Body) error {
	cfg := m.Config
	c.BinaryDefault = true
	size := int64(len(body.Tail)) + body.RestSize
	t, err := rawTensor(cfg, size)
	if err != nil {
		return err
	}
	if body.Limit > 0 && size > body.Limit {
		return kserve.Invalid("Raw input has a byte_size (" + strconv.FormatInt(size, 10) + " bytes) that exceeds the maximum allowed value of " +
			strconv.FormatInt(body.Limit, 10) + " bytes. Use --http-max-input-size to increase the limit.")
	}
	prefix := 0
	if t.Datatype == tensor.Bytes {
		if size > math.MaxUint32 {
			return kserve.Invalid("Raw input is too large for one BYTES element")
		}
		prefix = 4 // the one element's length
	}
	if err := copied(&m, body); err != nil {
		return err
	}
	if err := kserve.Allocate(&t, m.Allocator, prefix+int(size)); err != nil {
		return err
	}
	r.Inputs = append(r.Inputs, t)
	if prefix > 0 {
		binary.LittleEndian.PutUint32(t.Data, uint32(size))
	}
	dst := t.Data[prefix:]
	dst = dst[copy(dst, body.Tail):]
	if len(dst) > 0 {
		if _, err := io.ReadFull(body.Rest, dst); err != nil {
			return err
		}
	}
	return nil
}

// rawPrefix stands before the texts that Triton's core gives; a raw request
// has no ID.
const rawPrefix = "[request id: <id_unknown>] "

// rawTensor deduces name, datatype and shape.
func rawTensor(cfg *modelconfig.Config, size int64) (tensor.Tensor, *backend.Error) {
	if len(cfg.Inputs) != 1 {
		return tensor.Tensor{}, kserve.Invalid(rawPrefix + "Raw request must only have 1 input (found 1) to be deduced but got " +
			strconv.Itoa(len(cfg.Inputs)) + " inputs in '" + cfg.Name + "' model configuration")
	}
	in := &cfg.Inputs[0]
	t := tensor.Tensor{Name: in.Name, Datatype: in.Datatype}
	if in.Datatype == tensor.Bytes {
		if len(in.Dims) != 1 || in.Dims[0] != 1 {
			return t, kserve.Invalid(rawPrefix + "For BYTE datatype raw input '" + in.Name + "', the model must have input shape [1]")
		}
	}
	t.Shape = make(tensor.Shape, 0, len(in.Dims)+1)
	if cfg.MaxBatchSize > 0 {
		t.Shape = append(t.Shape, 1)
	}
	wild, each := -1, int64(in.Datatype.Size())
	for _, d := range in.Dims {
		if d < 0 {
			if wild >= 0 {
				return t, kserve.Invalid(rawPrefix + "The shape of the raw input '" + in.Name +
					"' can not be deduced because there are more than one variable-sized dimension")
			}
			wild = len(t.Shape)
		} else if d > 0 && each > math.MaxInt64/d {
			return t, sizeError(in.Name, in.Datatype, in.Dims, 0, true)
		} else {
			each *= d
		}
		t.Shape = append(t.Shape, d)
	}
	if in.Datatype == tensor.Bytes {
		return t, nil
	}
	want := each
	if wild >= 0 {
		t.Shape[wild] = 0
		if each > 0 {
			t.Shape[wild] = size / each
		}
		want = t.Shape[wild] * each
	}
	if want != size {
		return t, kserve.Invalid(rawPrefix + "input byte size mismatch for input 'raw_input' for model '" + cfg.Name + "'. Expected " +
			strconv.FormatInt(want, 10) + ", got " + strconv.FormatInt(size, 10))
	}
	return t, nil
}
