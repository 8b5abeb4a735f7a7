package grpcapi

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	pb "github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/tracing"
)

// traceSetting shows the trace settings of the server or of a model, after
// changing those that are given. No value clears one.
func (s *Server) traceSetting(_ context.Context, q *pb.TraceSettingRequest) (*pb.TraceSettingResponse, error) {
	var change tracing.Change
	if _, err := s.o.Engine.TraceSettings(q.ModelName, change); err != nil {
		return nil, failure(err) // an unknown model is said before a setting that cannot be changed
	}
	for name, given := range q.Settings {
		if err := setTrace(&change, name, given.GetValue()); err != nil {
			return nil, statusOf(err)
		}
	}
	fields, err := s.o.Engine.TraceSettings(q.ModelName, change)
	if err != nil {
		return nil, failure(err)
	}
	p := &pb.TraceSettingResponse{Settings: map[string]*pb.TraceSettingResponse_SettingValue{}}
	for _, f := range fields {
		p.Settings[f.Name] = &pb.TraceSettingResponse_SettingValue{Value: f.Values}
	}
	return p, nil
}

func setTrace(c *tracing.Change, name string, values []string) *backend.Error {
	if err := tracing.Locked(name); err != nil {
		return err
	}
	switch {
	case len(values) == 0:
		c.Clear(name)
	case tracing.IsLevel(name):
		return c.SetLevels(values)
	case !tracing.IsScalar(name):
	case len(values) > 1:
		return backend.Errorf(backend.InvalidArg, "expect only 1 value for '%s'", name)
	default:
		err := c.Set(name, values[0])
		if err != nil {
			// The two front ends of the peer differ in a blank.
			err.Message = strings.Replace(err.Message, "value >= -1, got:", "value >= -1, got: ", 1)
		}
		return err
	}
	return nil
}

// startTrace begins the timeline of a request that is sampled; the result is nil
// for all others.
func (s *Server) startTrace(ctx context.Context, r *infer.Request) *tracing.Trace {
	t := s.o.Engine.Tracer()
	if !t.On() {
		return nil // no closure is made
	}
	return t.Start(r, tracing.GRPC, func(name string) string {
		return strings.Join(metadata.ValueFromIncomingContext(ctx, name), ",")
	})
}
