package grpcapi

import (
	"context"

	"google.golang.org/grpc/metadata"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/kserve/protowire"
	"github.com/nesoserve/neso/internal/rollout"
)

// ask reads which version a request is for: a number or, of a model that has labels, a
// label. A model without rules has none: its clients are told what Triton says.
func (s *Server) ask(ctx context.Context, model, version string) (rollout.Ask, *backend.Error) {
	ruled := s.o.Engine.Labelled(model)
	if ruled && rollout.IsLabel(version) {
		return rollout.Ask{Version: -1, Label: version}, nil
	}
	n, bad := protowire.ParseVersion(version)
	if bad != nil && s.o.Guard != nil {
		// Who may not use the model is not told whether it has labels.
		if no := s.caller(ctx).May(auth.Inference, model); no != nil {
			bad = no
		}
	}
	a := rollout.Ask{Version: n}
	if ruled && n == -1 {
		a.Fields = fields{ctx}
	}
	return a, bad
}

// number is ask for what is no inference.
func (s *Server) number(model, version string) (int64, error) {
	a, bad := s.ask(context.Background(), model, version)
	if bad != nil {
		return 0, statusOf(bad)
	}
	n, err := s.o.Engine.Version(model, a)
	if err != nil {
		return 0, failure(err)
	}
	return n, nil
}

// fields are the metadata of a call as the rules for versions look at them.
type fields struct{ ctx context.Context } //nolint:containedctx // it is the call's, and lives no longer

// Field implements rollout.Fields.
func (f fields) Field(name string) string {
	return firstOf(metadata.ValueFromIncomingContext(f.ctx, name))
}
