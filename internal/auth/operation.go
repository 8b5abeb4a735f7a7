package auth

import "strings"

// Scope is a set of what a key may do.
type Scope uint8

// The scopes of an auth file.
const (
	// Infer sends requests to models, and reads what that needs: metadata,
	// configuration and readiness of the models and of the server.
	Infer Scope = 1 << iota
	// Read is Infer's reading, statistics, the index, settings and metrics.
	Read
	// Manage is Read, and loads, unloads, binds, registers memory and changes
	// settings. It does not send requests to models.
	Manage
)

var scopeNames = []struct {
	scope Scope
	name  string
}{{Infer, "infer"}, {Read, "read"}, {Manage, "manage"}}

// String returns the names, with " or " between them.
func (s Scope) String() string {
	var names []string
	for _, n := range scopeNames {
		if s&n.scope != 0 {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, " or ")
}

// Operation is what a request wants, the same over every protocol.
type Operation uint8

// The operations.
const (
	// Unsaid is what nobody has thought about: it needs what Control needs.
	Unsaid Operation = iota
	// Probe asks whether the server lives or is ready.
	Probe
	// Inspect reads metadata, configuration and readiness.
	Inspect
	// Inference sends a request to a model.
	Inference
	// Observe reads statistics, the index, settings, regions of shared memory.
	Observe
	// Metrics reads the metrics, which speak of all models.
	Metrics
	// Control changes the server: load, unload, bind, settings, shared memory.
	Control
	operationCount
)

// Changes reports whether the operation changes the server.
func (op Operation) Changes() bool { return op == Control || op == Unsaid }

// needs holds the scopes of which a key must have one.
var needs = [operationCount]Scope{
	Unsaid:    Manage,
	Probe:     Infer | Read | Manage,
	Inspect:   Infer | Read | Manage,
	Inference: Infer,
	Observe:   Read | Manage,
	Metrics:   Read | Manage,
	Control:   Manage,
}
