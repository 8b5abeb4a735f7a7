package modelconfig

import (
	"maps"
	"slices"
)

// Versions returns the version policy of a normalized draft.
func (d *Draft) Versions() VersionPolicy { return versionPolicy(d.pb.VersionPolicy) }

// SetNamespaces sets the namespaces of an ensemble's models, by their names.
func (d *Draft) SetNamespaces(of map[string]string) {
	for _, s := range d.pb.GetEnsembleScheduling().GetStep() {
		s.ModelNamespace = of[s.ModelName]
	}
}

// Agents returns the repository agents that the model asks for, in order.
func (d *Draft) Agents() []Agent {
	var all []Agent
	for _, a := range d.pb.GetModelRepositoryAgents().GetAgents() {
		all = append(all, Agent{Name: a.Name, Parameters: a.Parameters})
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
