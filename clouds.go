package neso

import (
	"context"
	"fmt"
	"net/http"

	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/httpapi"
	"github.com/nesoserve/neso/internal/listen"
)

// Sagemaker is the form that Amazon SageMaker's containers have: /ping,
// /invocations and /models.
type Sagemaker struct {
	// Address is "host:port", or empty for no listener.
	Address string
	// Model answers /invocations.
	Model string
	// LivePing makes /ping tell of liveness rather than readiness.
	LivePing bool
	// InferenceType of invocations is "infer", "generate" or "generate_stream";
	// default "infer".
	InferenceType string
	// Root is where the cloud puts models; default /opt/ml/models.
	Root string
}

// VertexAI is the form that Google Vertex AI's containers have.
type VertexAI struct {
	// Address is "host:port", or empty for no listener.
	Address string
	// PredictRoute and HealthRoute are the paths the cloud has chosen.
	PredictRoute, HealthRoute string
	// Model answers predictions; empty means the only one there is. It must be
	// there at the start, unless NoRepository lets models come later.
	Model string
}

// openClouds opens the listeners in the forms of the clouds' containers.
func (s *Server) openClouds(ctx context.Context, r *running) error {
	if s.Sagemaker.Address != "" {
		h, err := httpapi.NewSagemaker(r.api, httpapi.SagemakerOptions{
			Model: s.Sagemaker.Model, LivePing: s.Sagemaker.LivePing, InferenceType: s.Sagemaker.InferenceType, Root: s.Sagemaker.Root,
		})
		if err == nil {
			err = s.openCloud(ctx, r, "Sagemaker HTTPService", s.Sagemaker.Address, h)
		}
		if err != nil {
			return fmt.Errorf("failed to start SageMaker service: %w", err)
		}
	}
	if s.VertexAI.Address != "" {
		h, err := httpapi.NewVertex(r.api, httpapi.VertexOptions{
			PredictRoute: s.VertexAI.PredictRoute, HealthRoute: s.VertexAI.HealthRoute, Model: s.VertexAI.Model, Late: s.NoRepository,
			Metrics: r.api.Guarded(auth.Metrics, r.metrics),
		})
		if err == nil {
			r.vertex = h
			err = s.openCloud(ctx, r, "Vertex AI HTTPService", s.VertexAI.Address, h)
		}
		if err != nil {
			return fmt.Errorf("failed to start Vertex AI service: %w", err)
		}
	}
	return nil
}

// openCloud serves h with the bounds of the HTTP front end.
func (s *Server) openCloud(ctx context.Context, r *running, name, address string, h http.Handler) error {
	l, err := listen.Open(ctx, address, false)
	if err != nil {
		return err
	}
	l = r.watchdog.Watch(name, l, false)
	server := r.api.HTTPServer()
	server.Handler = h
	r.quiet.Watch(server)
	r.clouds = append(r.clouds, server)
	r.serve(name, l, server.Serve)
	return nil
}
