package jsonwire

import "encoding/json"

// Readiness is the answer to GET /v2/health/ready?verbose, an extension of ours.
type Readiness struct {
	Ready bool `json:"ready"`
	// State of the server: INITIALIZING, READY, EXITING or FAILED.
	State  string           `json:"state"`
	Reason string           `json:"reason,omitempty"` // why the server is not ready
	Models []ModelReadiness `json:"models"`
}

// ModelReadiness is one version of a model.
type ModelReadiness struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"` // none for a model without versions
	// State is that of the repository index; Ready says whether the version serves
	// at present, which a version whose worker keeps dying does not.
	State  string `json:"state"`
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
}

// EncodeReadiness returns the JSON.
func EncodeReadiness(r *Readiness) []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic("jsonwire: " + err.Error()) // strings and booleans
	}
	return b
}
