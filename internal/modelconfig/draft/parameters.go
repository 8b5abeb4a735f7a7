package draft

import (
	"slices"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig/fault"
	"github.com/nesoserve/neso/internal/modelconfig/platform"
	"github.com/nesoserve/neso/internal/spelling"
)

// UnknownBackend is the fault of a backend that a server does not have.
func (d *Draft) UnknownBackend(have []string) fault.List {
	name := d.pb.Backend
	f := d.from.Fault("backend", "unable to find backend library for backend '"+name+"', try specifying runtime on "+
		"the model configuration.",
		"one of "+strings.Join(slices.Sorted(slices.Values(have)), ", "), fault.Quote(name))
	if near := platform.NearestBackend(name, have); near != "" {
		f.Hint = fault.DidYouMean(near)
	}
	var faults fault.List
	faults.Add(f)
	return faults
}

// UnknownParameter is a parameter of a model that nothing reads, and the one that
// may have been meant.
type UnknownParameter struct{ Name, Meant string }

// UnknownParameters returns the parameters, sorted, that neither the driver nor
// the server, which knows those in all, reads.
func (d *Draft) UnknownParameters(of *backend.Driver, all []string) []UnknownParameter {
	if of.Parameters == nil {
		return nil
	}
	known := slices.Concat(of.Parameters, all)
	var unknown []UnknownParameter
	for _, name := range d.Parameters() {
		if spelling.Known(name, known) {
			continue
		}
		if near := spelling.Nearest(name, known); near != "" || !of.OwnParameters {
			unknown = append(unknown, UnknownParameter{name, near})
		}
	}
	return unknown
}
