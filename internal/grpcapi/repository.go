package grpcapi

import (
	"context"
	"strings"

	pb "github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/kserve"
)

// textRepository refuses the choice of one repository among several.
const textRepository = "'repository_name' specification is not supported"

func (s *Server) repositoryIndex(ctx context.Context, q *pb.RepositoryIndexRequest) (*pb.RepositoryIndexResponse, error) {
	if q.RepositoryName != "" {
		return nil, unsupported(textRepository)
	}
	entries, err := s.o.Engine.Index(q.Ready)
	if err != nil {
		return nil, failure(err)
	}
	p := &pb.RepositoryIndexResponse{}
	caller := callerOf(ctx)
	for _, e := range entries {
		if !caller.Sees(e.Name) {
			continue
		}
		p.Models = append(p.Models, &pb.RepositoryIndexResponse_ModelIndex{Name: e.Name, Version: e.Version, State: e.State, Reason: e.Reason})
	}
	return p, nil
}

func (s *Server) repositoryModelLoad(ctx context.Context, q *pb.RepositoryModelLoadRequest) (*pb.RepositoryModelLoadResponse, error) {
	if q.RepositoryName != "" {
		return nil, unsupported(textRepository)
	}
	config := ""
	files := map[string][]byte{}
	for name, p := range q.Parameters {
		path, isFile := strings.CutPrefix(name, "file:")
		switch {
		case name == "config":
			v, ok := p.GetParameterChoice().(*pb.ModelRepositoryParameter_StringParam)
			if !ok {
				return nil, invalidArgument("invalid value type for load parameter 'config', expected string_param.")
			}
			config = kserve.LoadConfig(v.StringParam)
		case isFile:
			v, ok := p.GetParameterChoice().(*pb.ModelRepositoryParameter_BytesParam)
			if !ok {
				return nil, invalidArgument("invalid value type for load parameter '" + name + "', expected bytes_param.")
			}
			files[path] = v.BytesParam
		default:
			return nil, invalidArgument("unrecognized load parameter '" + name + "'.")
		}
	}
	if err := s.o.Engine.Load(ctx, q.ModelName, config, files); err != nil {
		return nil, failure(err)
	}
	return &pb.RepositoryModelLoadResponse{}, nil
}

func (s *Server) repositoryModelUnload(ctx context.Context, q *pb.RepositoryModelUnloadRequest) (*pb.RepositoryModelUnloadResponse, error) {
	if q.RepositoryName != "" {
		return nil, unsupported(textRepository)
	}
	dependents := false
	if p, ok := q.Parameters["unload_dependents"]; ok {
		v, ok := p.GetParameterChoice().(*pb.ModelRepositoryParameter_BoolParam)
		if !ok {
			return nil, invalidArgument("invalid value type for 'unload_dependents' parameter, expected bool_param.")
		}
		dependents = v.BoolParam
	}
	if err := s.o.Engine.Unload(ctx, q.ModelName, dependents); err != nil {
		return nil, failure(err)
	}
	return &pb.RepositoryModelUnloadResponse{}, nil
}
