package draft

import (
	"google.golang.org/protobuf/proto"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/gpu"
	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/modelconfig"
)

// SameModel reports whether a version that was loaded from a draft, which its
// backend has completed to a configuration, would be loaded in the same way from d:
// they differ in instance_group and version_policy at most. All are normalized.
func (d *Draft) SameModel(loaded *Draft, completed *modelconfig.Config) bool {
	rest := withoutInstances(d.pb)
	return loaded != nil && proto.Equal(rest, withoutInstances(loaded.pb)) || proto.Equal(rest, withoutInstances(completed.Proto()))
}

func withoutInstances(pb *inferencepb.ModelConfig) *inferencepb.ModelConfig {
	pb = proto.Clone(pb).(*inferencepb.ModelConfig)
	pb.InstanceGroup, pb.VersionPolicy = nil, nil
	return pb
}

// ChangeInstances returns a configuration with instance_group and version_policy of
// the draft, after Draft.NormalizeInstances.
func (d *Draft) ChangeInstances(of *modelconfig.Config, set gpu.Set, prefer backend.Capabilities) (*modelconfig.Config, error) {
	pb := proto.Clone(of.Proto()).(*inferencepb.ModelConfig)
	from := d.Clone()
	pb.InstanceGroup, pb.VersionPolicy = from.pb.InstanceGroup, from.pb.VersionPolicy
	from.pb = pb
	if err := from.NormalizeInstances(set, prefer); err != nil {
		return nil, err
	}
	return from.Finish()
}
