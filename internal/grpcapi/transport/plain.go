package transport

import (
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nesoserve/neso/internal/grpcapi/transport/header"
)

// A request of HTTP that is no call of gRPC is answered by HTTP's status and a
// line for whoever reads it, once it has come whole: its body is not looked at.

var (
	notPost = method{stream: &grpc.StreamDesc{Handler: func(any, grpc.ServerStream) error {
		return status.Error(codes.Internal, "Received a HEADERS frame with a :method which should be POST")
	}}}
	notGRPC = method{stream: &grpc.StreamDesc{Handler: func(any, grpc.ServerStream) error {
		return status.Error(codes.Unknown, "invalid gRPC request content-type")
	}}}
)

// sendPlainLocked sends such an answer, but for its end, which is that of a call.
func (c *conn) sendPlainLocked(st *stream) {
	text := fmt.Sprintf("%d: this port speaks gRPC, which is POST with content-type %s\n", st.status, header.ContentType)
	head := func(b []byte) []byte {
		st.headSent = true
		start := len(b)
		b = append(b, make([]byte, frameHeaderSize)...)
		b = c.table.AppendHead(b, st.status, "text/plain; charset=utf-8")
		return appendHeaders(b, start, st.id, false, c.maxFrame)
	}
	c.sendLocked(st, head, &payload{parts: plainParts(text), size: len(text), plain: true}, nil)
}
