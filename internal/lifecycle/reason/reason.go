// Package reason owns the texts of loads that fail, in the peer's words: clients know
// them.
//
// Open reason.go.
package reason

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nesoserve/neso/backend"
)

// Unread is the error of a load whose model could not be read.
func Unread(name string, err error) error {
	return backend.Errorf(backend.Internal, "%s%v", unread(name), err)
}

func unread(name string) string {
	return "failed to load '" + name + "', failed to poll from model repository: "
}

// Failed is the error of a load that failed after the model was read. The newline is the
// peer's.
func Failed(name, why string) error {
	return backend.Errorf(backend.InvalidArg, "%s%s\n", failed(name), why)
}

func failed(name string) string { return "load failed for model '" + name + "': " }

// WithCode is an error behind its code.
func WithCode(err error) string {
	e := backend.AsError(err)
	return e.Code.String() + ": " + e.Message
}

// Circle is the error of ensembles that are made of each other.
func Circle(path []string) error {
	return backend.Errorf(backend.InvalidArg, "%s%s", circular, strings.Join(path, " -> "))
}

const circular = "circular dependency between ensembles: "

// OfPart is the error of an ensemble with a part that was read and did not load, itself
// an ensemble or not.
func OfPart(ensemble, part string, isEnsemble bool, err error) error {
	why := strings.TrimPrefix(strings.TrimSuffix(err.Error(), "\n"), failed(part))
	switch {
	case strings.HasPrefix(why, circular):
		return backend.Errorf(backend.InvalidArg, "%s", why)
	case isEnsemble:
		return backend.Errorf(backend.InvalidArg,
			"ensemble '%s' depends on '%s' which is not valid. Model '%s' failed with error: %s", ensemble, part, part, why)
	}
	return backend.Errorf(backend.InvalidArg, "ensemble '%s' depends on '%s' which has no loaded version. Model '%s' loading "+
		"failed with error: %s", ensemble, part, part, why)
}

// OfAbsent is the error of an ensemble with a part that could not be read: to the peer it
// is as one that is not there.
func OfAbsent(ensemble, part string, err error) error {
	text := fmt.Sprintf("ensemble %s contains models that are not available or ambiguous: %s", ensemble, part)
	if backend.AsError(err).Code != backend.NotFound {
		text += ": " + strings.TrimPrefix(strings.TrimSpace(err.Error()), unread(part))
	}
	return backend.Errorf(backend.InvalidArg, "%s", text)
}

// List collects what keeps an ensemble from loading, each reason once.
type List []string

// Add adds the text of an error, if there is one.
func (l *List) Add(err error) {
	if err != nil && !slices.Contains(*l, err.Error()) {
		*l = append(*l, err.Error())
	}
}

// Err is the error with all of them.
func (l List) Err() error {
	return backend.Errorf(backend.InvalidArg, "%s", strings.Join(l, "; "))
}

// Of is why one model did not load.
type Of struct {
	Model string
	Err   error
	// Temporary says that the same model may load when it is tried again.
	Temporary bool
}

// All joins reasons to one error that names each model, or nil.
func All(failures []Of) error {
	if len(failures) == 0 {
		return nil
	}
	var text strings.Builder
	text.WriteString("failed to load all models")
	for _, f := range failures {
		fmt.Fprintf(&text, "\n  %s: %s", f.Model, strings.ReplaceAll(strings.TrimSpace(f.Err.Error()), "\n", "\n    "))
	}
	return &backend.Error{Code: backend.Internal, Message: text.String()}
}

// Busy is the error of a load or unload that another one stands in the way of.
type Busy struct {
	error
	Model string
	// Passes says that who was refused takes a model that the load of an ensemble holds.
	Passes bool
}

// Unwrap returns the error without what is beside its text.
func (b Busy) Unwrap() error { return b.error }

// IsBusy reports whether it is one.
func IsBusy(err error) bool { return errors.As(err, new(Busy)) }

// Refused is the error of repository agents that do not take a model's files: what they
// refuse is not loaded with a configuration that does not name them either.
type Refused struct{ Err error }

func (r Refused) Error() string { return r.Err.Error() }

// Unwrap returns the error of the agents.
func (r Refused) Unwrap() error { return r.Err }

// IsRefused reports whether it is one.
func IsRefused(err error) bool { return errors.As(err, new(Refused)) }

// Related is the error of who needs a model that another load or unload has.
func Related(model string, passes bool) error {
	return Busy{
		backend.Errorf(backend.Internal, "a related model '%s' to a load/unload request is currently loading or unloading", model),
		model, passes,
	}
}
