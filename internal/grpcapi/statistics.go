package grpcapi

import (
	"context"
	"strconv"

	"github.com/nesoserve/neso/internal/engine"
	pb "github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/stats"
)

func (s *Server) modelStatistics(ctx context.Context, q *pb.ModelStatisticsRequest) (*pb.ModelStatisticsResponse, error) {
	version, err := s.number(q.Name, q.Version)
	if err != nil {
		return nil, err
	}
	all, err := s.o.Engine.Statistics(q.Name, version)
	if err != nil {
		return nil, failure(err)
	}
	p := &pb.ModelStatisticsResponse{}
	caller := callerOf(ctx)
	for _, v := range all {
		if !caller.Sees(v.Name) {
			continue
		}
		p.ModelStats = append(p.ModelStats, versionStatistics(v))
	}
	return p, nil
}

func versionStatistics(v engine.VersionStats) *pb.ModelStatistics {
	n := v.Stats.Snapshot()
	p := &pb.ModelStatistics{
		Name:           v.Name,
		Version:        strconv.FormatInt(v.Version, 10),
		LastInference:  uint64(n.LastInference),
		InferenceCount: n.InferenceCount,
		ExecutionCount: n.ExecutionCount,
		InferenceStats: &pb.InferStatistics{
			Success:       duration(n.Success),
			Fail:          duration(n.Fail),
			Queue:         duration(n.Queue),
			ComputeInput:  duration(n.ComputeInput),
			ComputeInfer:  duration(n.ComputeInfer),
			ComputeOutput: duration(n.ComputeOutput),
			CacheHit:      duration(n.CacheHit),
			CacheMiss:     duration(n.CacheMiss),
		},
	}
	for _, b := range n.Batches {
		p.BatchStats = append(p.BatchStats, &pb.InferBatchStatistics{
			BatchSize:     uint64(b.Size),
			ComputeInput:  duration(b.ComputeInput),
			ComputeInfer:  duration(b.ComputeInfer),
			ComputeOutput: duration(b.ComputeOutput),
		})
	}
	for _, u := range v.Memory() {
		p.MemoryUsage = append(p.MemoryUsage, &pb.MemoryUsage{Type: u.Type, Id: u.ID, ByteSize: u.Bytes})
	}
	for _, r := range n.Responses {
		if p.ResponseStats == nil {
			p.ResponseStats = map[string]*pb.InferResponseStatistics{}
		}
		p.ResponseStats[strconv.Itoa(r.Index)] = &pb.InferResponseStatistics{
			ComputeInfer:  duration(r.ComputeInfer),
			ComputeOutput: duration(r.ComputeOutput),
			Success:       duration(r.Success),
			Fail:          duration(r.Fail),
			EmptyResponse: duration(r.Empty),
			Cancel:        duration(r.Cancel),
		}
	}
	return p
}

func duration(d stats.Duration) *pb.StatisticDuration {
	return &pb.StatisticDuration{Count: d.Count, Ns: d.Nanos}
}
