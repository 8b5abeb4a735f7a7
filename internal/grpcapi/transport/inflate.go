package transport

import (
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/nesoserve/neso/internal/ledger"
)

// quickInflation is a piece of a message that is large once it is inflated. Those
// take turns in Options.Heavy: they take little of the client's time.
const quickInflation = 64 << 10

// decompress returns a message as it was, and how many bytes of it are on the
// ledger, also with an error. Its memory is made as it is filled; Options.Known is
// asked before there is much of it.
func (st *stream) decompress(b mem.BufferSlice) (_ mem.BufferSlice, held int64, _ error) {
	if st.encoding == "" || st.encoding == encoding.Identity {
		return nil, 0, status.Error(codes.Internal, "grpc: compressed flag set with identity or empty encoding")
	}
	s := st.c.s
	z := s.o.Compressors[st.encoding]
	if z == nil {
		return nil, 0, status.Errorf(codes.Unimplemented, "grpc: Decompressor is not installed for grpc-encoding %q", st.encoding)
	}
	r, err := z.Decompress(b.Reader())
	if err != nil {
		return nil, 0, status.Errorf(codes.Internal, "grpc: failed to decompress the received message: %v", err)
	}
	if closer, ok := r.(io.Closer); ok {
		defer closer.Close() // keeps the reader for the next message
	}
	var out mem.BufferSlice
	l := s.o.Ledger
	for size, next := 0, minPiece; ; next = min(2*next, maxPiece) {
		if next == quickInflation {
			if !s.o.Heavy.Enter(st.Context().Done()) {
				out.Free()
				return nil, held, Ended(st.Context().Err()).Err()
			}
			defer s.o.Heavy.Leave()
		}
		if !l.Take(ledger.In, int64(next)) {
			out.Free()
			return nil, held, s.exhausted(ledger.In, int64(next)).Err()
		}
		held += int64(next)
		p := buffers.Get(next)
		n, err := io.ReadFull(r, *p)
		*p = (*p)[:n]
		size += n
		if n > 0 {
			out = append(out, mem.NewBuffer(p, buffers))
		} else {
			buffers.Put(p)
		}
		ended := err == io.EOF || err == io.ErrUnexpectedEOF //nolint:errorlint // io.ReadFull returns them as they are
		switch {
		case err != nil && !ended:
			err = status.Errorf(codes.Internal, "grpc: failed to decompress the received message: %v", err)
		case size > s.o.MaxMessage:
			err = status.Errorf(codes.ResourceExhausted, "grpc: received message after decompression larger than max %d", s.o.MaxMessage)
		case next == minPiece && n > 0 && s.o.Known != nil:
			err = s.o.Known(st.Context(), st.method.name, *p)
		default:
			err = nil
		}
		if err != nil {
			out.Free()
			return nil, held, err
		}
		if ended {
			return out, held, nil
		}
	}
}
