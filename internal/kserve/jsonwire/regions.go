package jsonwire

import (
	"encoding/base64"
	"math"
	"strconv"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/shm"
)

// SystemRegion is what a client says of a system region that it registers.
type SystemRegion struct {
	Key              string
	Offset, ByteSize uint64 // bytes
}

// CUDARegion is what a client says of a CUDA region that it registers.
type CUDARegion struct {
	Handle   []byte // shm.HandleSize bytes
	Device   int64
	ByteSize uint64
}

// DecodeSystemRegion reads the body of a registration.
func DecodeSystemRegion(body []byte) (q SystemRegion, err *backend.Error) {
	var key, size bool
	err = controlBody(body, func(d *Decoder, name []byte) *backend.Error {
		switch string(name) {
		case "key":
			key = true
			return d.memberText("key", &q.Key)
		case "offset":
			return d.memberNumber("offset", &q.Offset)
		case "byte_size":
			size = true
			return d.memberNumber("byte_size", &q.ByteSize)
		}
		return d.skipTo(nil)
	})
	if err != nil {
		return SystemRegion{}, err
	}
	return q, firstMissing(map[string]bool{"key": key, "byte_size": size}, "key", "byte_size")
}

// DecodeCUDARegion reads the body of a registration.
func DecodeCUDARegion(body []byte) (q CUDARegion, err *backend.Error) {
	var raw, b64, size, device bool
	var text string
	var number uint64
	err = controlBody(body, func(d *Decoder, name []byte) *backend.Error {
		switch string(name) {
		case "raw_handle":
			raw = true
			if d.s.Peek() != '{' {
				return d.skipTo(missing("b64"))
			}
			return d.object(func(name []byte) *backend.Error {
				if string(name) != "b64" {
					return d.skipTo(nil)
				}
				b64 = true
				return d.memberText("b64", &text)
			})
		case "device_id":
			device = true
			return d.memberNumber("device_id", &number)
		case "byte_size":
			size = true
			return d.memberNumber("byte_size", &q.ByteSize)
		}
		return d.skipTo(nil)
	})
	if err == nil {
		err = firstMissing(map[string]bool{"raw_handle": raw, "byte_size": size}, "raw_handle", "byte_size")
	}
	switch {
	case err != nil:
		return CUDARegion{}, err
	case !b64:
		return CUDARegion{}, missing("b64")
	case !device:
		return CUDARegion{}, missing("device_id")
	}
	var fault error
	if q.Handle, fault = base64.StdEncoding.DecodeString(text); fault != nil || len(q.Handle) != shm.HandleSize {
		return CUDARegion{}, kserve.Invalid("'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t")
	}
	if number > math.MaxInt32 {
		return CUDARegion{}, kserve.Invalid("'device_id' is no number of a device")
	}
	q.Device = int64(number)
	return q, nil
}

func firstMissing(have map[string]bool, fields ...string) *backend.Error {
	for _, f := range fields {
		if !have[f] {
			return kserve.Invalid("Shared memory register request has no '" + f + "' field")
		}
	}
	return nil
}

// memberText reads the value of a member that has to be a string.
func (d *Decoder) memberText(name string, to *string) *backend.Error {
	if d.s.Peek() != '"' {
		return d.skipTo(notText(name))
	}
	text, ok := d.s.Str()
	if !ok {
		return d.s.Err("request")
	}
	*to = string(text)
	return nil
}

// memberNumber reads the value of a member that has to be an unsigned integer.
func (d *Decoder) memberNumber(name string, to *uint64) *backend.Error {
	p, structured, err := d.parameter([]byte(name))
	if err != nil {
		return err
	}
	n, ok := kserve.Unsigned(p)
	if structured || !ok {
		return kserve.WrongType(kserve.HTTP, name, kserve.UnsignedType)
	}
	*to = n
	return nil
}

// AppendRegions appends the status of regions of one kind.
func AppendRegions(b []byte, regions []shm.Region) []byte {
	b = append(b, '[')
	for i := range regions {
		r := &regions[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = appendValid(append(b, `{"name":`...), r.Name)
		if r.Kind == shm.CUDA {
			b = strconv.AppendUint(append(b, `,"device_id":`...), r.Device, 10)
		} else {
			b = appendValid(append(b, `,"key":`...), r.Key)
			b = strconv.AppendUint(append(b, `,"offset":`...), r.Offset, 10)
		}
		b = strconv.AppendUint(append(b, `,"byte_size":`...), r.ByteSize, 10)
		b = append(b, '}')
	}
	return append(b, ']')
}
