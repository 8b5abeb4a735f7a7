package draft

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/modelconfig/check"
	"github.com/nesoserve/neso/internal/modelconfig/encode"
	"github.com/nesoserve/neso/internal/modelconfig/fault"
)

// Versions returns the version policy of a normalized draft.
func (d *Draft) Versions() modelconfig.VersionPolicy { return modelconfig.PolicyOf(d.pb.VersionPolicy) }

// SetNamespaces sets the namespaces of an ensemble's models, by their names.
func (d *Draft) SetNamespaces(of map[string]string) {
	for _, s := range d.pb.GetEnsembleScheduling().GetStep() {
		s.ModelNamespace = of[s.ModelName]
	}
}

// Agents returns the repository agents that the model asks for, in order.
func (d *Draft) Agents() []modelconfig.Agent {
	var all []modelconfig.Agent
	for _, a := range d.pb.GetModelRepositoryAgents().GetAgents() {
		all = append(all, modelconfig.Agent{Name: a.Name, Parameters: a.Parameters})
	}
	return all
}

// Parameters returns the names of the model's parameters, sorted.
func (d *Draft) Parameters() []string { return slices.Sorted(maps.Keys(d.pb.Parameters)) }

// IsEnsemble reports whether the model is made of other models.
func (d *Draft) IsEnsemble() bool { return d.pb.GetEnsembleScheduling() != nil }

// Parts returns the models that an ensemble is made of, each once, in the
// order of the steps.
func (d *Draft) Parts() []string {
	var parts []string
	for _, s := range d.pb.GetEnsembleScheduling().GetStep() {
		if !slices.Contains(parts, s.ModelName) {
			parts = append(parts, s.ModelName)
		}
	}
	return parts
}

// Validate checks the normalized configuration and returns all faults, of type
// [fault.List]. Inputs and outputs are checked when tensors is set; a backend may
// still have to complete them. What Triton looks at only while it loads a version is
// left to [Draft.Finish].
func (d *Draft) Validate(tensors bool) error { return d.Check(tensors, false).Err() }

// Check is Validate with, where load is set, what is looked at while a version loads.
func (d *Draft) Check(tensors, load bool) fault.List {
	return check.Config(d.pb, d.from, tensors, load)
}

// Finish validates the whole draft and makes the immutable configuration of
// it. The draft can be used further; the configuration keeps a copy.
func (d *Draft) Finish() (*modelconfig.Config, error) {
	if faults := d.Check(true, true); len(faults) > 0 {
		return nil, faults
	}
	return d.View(), nil
}

// View makes a Config of the draft as it stands, for backends that complete it,
// for printing and for what else can be said of a faulty one. It accepts what
// validation would refuse.
func (d *Draft) View() *modelconfig.Config {
	pb := proto.Clone(d.pb).(*inferencepb.ModelConfig)
	if pb.GetEnsembleScheduling() != nil && pb.ModelTransactionPolicy == nil {
		// Triton derives this for ensembles and always shows it.
		pb.ModelTransactionPolicy = &inferencepb.ModelTransactionPolicy{}
	}
	c := modelconfig.Of(pb)
	c.Filename = cmp.Or(d.chosen, c.Filename)
	return c
}

// ToBackend returns what a backend is told when it completes the draft.
func (d *Draft) ToBackend(directory, versionDirectory string, version int64) backend.Config {
	return d.View().ToBackend(directory, versionDirectory, version)
}

// Text returns the draft as it stands in the form of config.pbtxt.
func (d *Draft) Text() []byte { return encode.AppendText(nil, d.pb.ProtoReflect(), "") }
