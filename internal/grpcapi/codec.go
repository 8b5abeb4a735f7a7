package grpcapi

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/nesoserve/neso/internal/kserve/protowire"
)

// codec is set on one server, never process-wide. It reads and writes inference
// messages itself, so that tensor bytes are not copied through generated code,
// and leaves all other messages, those of the health service included, to
// protobuf.
type codec struct {
	fallback encoding.CodecV2
}

func newCodec() codec { return codec{fallback: encoding.GetCodecV2(proto.Name)} }

// Name is the content subtype.
func (codec) Name() string { return proto.Name }

// Unmarshal reads a message. An inference request keeps a reference on data.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if q, ok := v.(*protowire.Request); ok {
		return q.Parse(data)
	}
	return c.fallback.Unmarshal(data, v)
}

// Marshal writes a message. It consumes the outputs of an inference response.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if p, ok := v.(*protowire.Response); ok {
		return protowire.Encode(p), nil
	}
	return c.fallback.Marshal(v)
}
