package jsonwire

import (
	"encoding/json"
	"mime"
	"strconv"
	"strings"
)

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

// AskedFor reports whether values of Accept name JSON. Answers about health are empty
// otherwise, as the peer's are, whose clients look at the status alone; KServe's own
// client reads what its own servers say.
func AskedFor(accept []string) bool {
	for _, value := range accept {
		for one := range strings.SplitSeq(value, ",") {
			kind, parameters, err := mime.ParseMediaType(one)
			if err != nil || kind != "application/json" {
				continue
			}
			quality, err := strconv.ParseFloat(parameters["q"], 64)
			return err != nil || quality > 0
		}
	}
	return false
}

// health is the answer to the questions of health for who asks for JSON.
type health struct {
	Name  string `json:"name,omitempty"` // of the model
	Live  *bool  `json:"live,omitempty"`
	Ready *bool  `json:"ready,omitempty"`
}

// EncodeHealth returns the JSON of an answer about a model, or with an empty name about
// the server: whether it lives, or whether it is ready.
func EncodeHealth(live, yes bool, model string) []byte {
	h := health{Name: model, Ready: &yes}
	if live {
		h.Live, h.Ready = &yes, nil
	}
	b, err := json.Marshal(h)
	if err != nil {
		panic("jsonwire: " + err.Error()) // a string and booleans
	}
	return b
}
