package host

import (
	"encoding/json"

	"github.com/nesoserve/neso/backend"
)

// Load is the body of LOAD: a version of a model for the worker.
type Load struct {
	// Model is its number in the worker.
	Model uint32 `json:"model"`
	// Library is the path of the library, Directory where the backend's files lie.
	Library   string `json:"library"`
	Directory string `json:"directory"`
	// Settings are those of --backend-config.
	Settings backend.Settings `json:"settings"`
	View     backend.Config   `json:"view"`
	// Complete asks for what the model itself knows; AutoComplete says that the
	// server may be told, now or in an earlier life.
	Complete bool `json:"complete"`
	// Attributes asks for Loaded.Preferred and Parallel alone: no model is made.
	Attributes bool `json:"attributes,omitempty"`
	// Verbose says that the server's log takes verbose messages.
	Verbose bool `json:"verbose,omitempty"`
	// Preload are names of the library of the server by which the backend's library
	// asks for it.
	Preload []string `json:"preload,omitempty"`
}

// Loaded is the body of READY that answers LOAD.
type Loaded struct {
	// Config is the completed configuration, where the model has changed it.
	Config json.RawMessage `json:"config,omitempty"`
	// Preferred are the instance groups that the library prefers.
	Preferred []backend.PreferredGroup `json:"preferred,omitempty"`
	// Parallel says that the library has instances initialized beside each other.
	Parallel bool `json:"parallel,omitempty"`
}

// Init is the body of INIT: an instance of a model that was loaded.
type Init struct {
	Model     uint32                 `json:"model"`
	Config    json.RawMessage        `json:"config"` // as completed
	Instance  backend.InstanceConfig `json:"instance"`
	Inputs    []string               `json:"inputs"`
	Outputs   []string               `json:"outputs"`
	Decoupled bool                   `json:"decoupled"`
	Iterative bool                   `json:"iterative"`
	Window    int                    `json:"window"`
	// Parallel says that other instances of the model may be initialized meanwhile.
	Parallel bool `json:"parallel,omitempty"`
	// Batching is the path of a batching library: then what is made is no instance but
	// what that says of requests, and each request of a batch is answered with the
	// parameter Joins.
	Batching string `json:"batching,omitempty"`
	// Board is where the instance's words are on the board; nil without.
	Board *int `json:"board,omitempty"`
}

// Joins is the name of a parameter: whether a request joins those before it in a batch.
const Joins = "joins"

// Unload is the body of UNLOAD: a model, or, of a model, the instance that the frame
// names.
type Unload struct {
	Model *uint32 `json:"model,omitempty"`
	Of    uint32  `json:"of,omitempty"`
}
