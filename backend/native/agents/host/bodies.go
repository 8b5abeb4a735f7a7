package host

import "encoding/json"

// Open is the body of LOAD for instance 0: the library.
type Open struct {
	Library string `json:"library"`
	Name    string `json:"name"`
	// Verbose and Preload are those of package backend/native/host.
	Verbose bool     `json:"verbose,omitempty"`
	Preload []string `json:"preload,omitempty"`
}

// Begin is the body of INIT: a load of a model, by the number of the frame.
type Begin struct {
	Parameters [][2]string     `json:"parameters"`
	Config     json.RawMessage `json:"config,omitempty"`
	Location   string          `json:"location"`
	// Scratch is a directory for those that the agent acquires.
	Scratch string `json:"scratch"`
}

// Act is the body of LOAD for the number of a load.
type Act struct {
	Action uint8 `json:"action"`
}

// Acted is the body of READY that answers Act.
type Acted struct {
	// Location is where the agent wants the model to be loaded from, if it has said so.
	Location string `json:"location,omitempty"`
}
