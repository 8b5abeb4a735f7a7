package grpcapi

import (
	"context"
	"strconv"

	pb "github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

func (s *Server) serverMetadata(context.Context, *pb.ServerMetadataRequest) (*pb.ServerMetadataResponse, error) {
	if _, err := s.live(); err != nil {
		return nil, err
	}
	m := s.o.Engine.Metadata()
	return &pb.ServerMetadataResponse{Name: m.Name, Version: m.Version, Extensions: m.Extensions}, nil
}

// model looks a version up that is ready, or can be loaded, with all versions.
func (s *Server) model(ctx context.Context, name, version string) (*modelconfig.Config, []int64, error) {
	n, err := s.number(name, version)
	if err != nil {
		return nil, nil, err
	}
	cfg, versions, err := s.o.Engine.Describe(ctx, name, n)
	if err != nil {
		return nil, nil, failure(err)
	}
	return cfg, versions, nil
}

func (s *Server) modelMetadata(ctx context.Context, q *pb.ModelMetadataRequest) (*pb.ModelMetadataResponse, error) {
	cfg, versions, err := s.model(ctx, q.Name, q.Version)
	if err != nil {
		return nil, err
	}
	p := &pb.ModelMetadataResponse{Name: cfg.Name, Platform: kserve.Platform(cfg)}
	for _, v := range versions {
		p.Versions = append(p.Versions, strconv.FormatInt(v, 10))
	}
	for i := range cfg.Inputs {
		p.Inputs = append(p.Inputs, tensorMetadata(cfg.Inputs[i].Name, cfg.Inputs[i].Datatype, kserve.MetadataShape(cfg, cfg.Inputs[i].Dims)))
	}
	for i := range cfg.Outputs {
		p.Outputs = append(p.Outputs, tensorMetadata(cfg.Outputs[i].Name, cfg.Outputs[i].Datatype,
			kserve.MetadataShape(cfg, cfg.Outputs[i].Dims)))
	}
	return p, nil
}

func tensorMetadata(name string, d tensor.Datatype, shape tensor.Shape) *pb.ModelMetadataResponse_TensorMetadata {
	return &pb.ModelMetadataResponse_TensorMetadata{Name: name, Datatype: d.String(), Shape: shape}
}

func (s *Server) modelConfig(ctx context.Context, q *pb.ModelConfigRequest) (*pb.ModelConfigResponse, error) {
	cfg, _, err := s.model(ctx, q.Name, q.Version)
	if err != nil {
		return nil, err
	}
	return &pb.ModelConfigResponse{Config: cfg.Proto()}, nil
}
