package transport

import (
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/nesoserve/neso/internal/grpcapi/transport/header"
)

// judge checks the headers of a call. It returns a status for one that is
// refused.
func (c *intake) judge(st *stream) *status.Status {
	h := &c.head
	switch {
	case h.Size > MaxHeaderList:
		return status.New(codes.ResourceExhausted, fmt.Sprintf("the metadata of the call has %d bytes, at most %d", h.Size, MaxHeaderList))
	case h.Method != "POST":
		st.method, st.status = &notPost, 405
		return nil
	case !header.IsGRPC(h.ContentType):
		st.method, st.status = &notGRPC, 415
		return nil
	}
	if st.method = c.s.methods[h.Path]; st.method == nil {
		return c.s.unknown(h.Path)
	}
	if h.Timeout != "" {
		d, err := header.ParseTimeout(h.Timeout)
		if err != nil {
			return status.New(codes.Internal, "malformed grpc-timeout: "+err.Error())
		}
		st.ctx.deadline = time.Now().Add(d)
		c.mu.Lock()
		if !st.reset {
			st.timer = c.s.after(d, st.expire)
		}
		c.mu.Unlock()
	}
	if c.s.o.Tap != nil {
		ctx, err := c.s.o.Tap(&st.ctx, &tap.Info{FullMethodName: h.Path, Header: st.metadata()})
		if err != nil {
			s, ok := status.FromError(err)
			if !ok {
				s = status.New(codes.PermissionDenied, err.Error())
			}
			return s
		}
		if ctx != &st.ctx {
			st.outer = ctx
		}
	}
	return nil
}

// unknown says what a path does not name.
func (s *Server) unknown(path string) *status.Status {
	if len(path) > maxEcho { // an answer must not be much longer than its request
		path = path[:maxEcho]
	}
	service, name, ok := splitPath(path)
	switch {
	case !ok:
		return status.New(codes.Unimplemented, fmt.Sprintf("malformed method name: %q", path))
	case s.services[service]:
		return status.New(codes.Unimplemented, fmt.Sprintf("unknown method %v for service %v", name, service))
	}
	return status.New(codes.Unimplemented, fmt.Sprintf("unknown service %v", service))
}

func splitPath(path string) (service, name string, ok bool) {
	if path == "" || path[0] != '/' {
		return "", "", false
	}
	for i := len(path) - 1; i > 0; i-- {
		if path[i] == '/' {
			return path[1:i], path[i+1:], true
		}
	}
	return "", "", false
}

// maxEcho bounds what an answer repeats of its request, in bytes.
const maxEcho = 200
