package neso

import (
	"context"
	"fmt"
	"net/http"

	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/httpapi"
)

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
			PredictRoute: s.VertexAI.PredictRoute, HealthRoute: s.VertexAI.HealthRoute, Model: s.VertexAI.Model, Late: s.NoRepository, Metrics: r.api.Guarded(auth.Metrics, r.metrics),
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
	l, err := listen(ctx, address, false)
	if err != nil {
		return err
	}
	l = r.watchdog.watch(name, l, false)
	server := r.api.HTTPServer()
	server.Handler = h
	r.quiet.watch(server)
	r.clouds = append(r.clouds, server)
	r.serve(name, l, server.Serve)
	return nil
}
