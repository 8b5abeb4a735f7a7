// Package checkpoint owns the file that a search goes on from: all that was measured,
// written whole after each server.
package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nesoserve/neso/internal/tune/trial"
	"github.com/nesoserve/neso/internal/wholefile"
)

// Filename is that of the checkpoint in the directory of a search.
const Filename = "checkpoint.json"

// version is that of the file's form.
const version = 1

// mostBytes bounds what is read.
const mostBytes = 256 << 20

// State is what the file has.
type State struct {
	Version int    `json:"version"`
	Neso    string `json:"neso"`
	// Setting is what must be the same for runs to be compared: the models, what is sent
	// to them, how long it is measured.
	Setting Setting `json:"setting"`
	// Goal, in words and in numbers, is what the last search was for.
	Goal    Goal        `json:"goal"`
	Models  []Model     `json:"models"`
	Runs    []trial.Run `json:"runs"`
	Machine Machine     `json:"machine"`
}

// Setting is what must be the same for runs to be compared.
type Setting struct {
	Models       []string            `json:"models"`
	Repositories []string            `json:"repositories"`
	Load         map[string][]string `json:"load"` // options of the load, by model
	Server       []string            `json:"server,omitempty"`
	Configs      map[string]string   `json:"configs"` // texts of config.pbtxt, by model
}

// Machine is where it was measured.
type Machine struct {
	Processors int    `json:"processors"`
	OS         string `json:"os"`
}

// Model is one that is tuned.
type Model struct {
	Name      string `json:"name"`
	Directory string `json:"directory"`
	// Missing says that the model had no config.pbtxt.
	Missing bool   `json:"no_config,omitempty"`
	Config  string `json:"config"`
	// Loaded says that requests go to the model itself.
	Loaded bool `json:"loaded"`
	// Completed is the configuration as the server has it, in JSON.
	Completed json.RawMessage `json:"completed,omitempty"`
}

// Goal is what was searched for.
type Goal struct {
	Text   string         `json:"text"`
	Models []GoalOfModel  `json:"models"`
	Knobs  map[string]int `json:"knobs"` // how many values each has
	Search string         `json:"search"`
	// Fields are the columns of the CSV file, if others than usual were asked for.
	Fields []string `json:"csv_fields,omitempty"`
}

// GoalOfModel is what was searched for of one model.
type GoalOfModel struct {
	Model      string                   `json:"model"`
	Weight     float64                  `json:"weight"`
	Objectives map[trial.Metric]float64 `json:"objectives"`
	Min        map[trial.Metric]float64 `json:"min,omitempty"`
	Max        map[trial.Metric]float64 `json:"max,omitempty"`
}

// Load reads the checkpoint of a directory; nil if there is none.
func Load(directory string) (*State, error) {
	path := filepath.Join(directory, Filename)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if info.Size() > mostBytes {
		return nil, fmt.Errorf("%s has %d bytes: expected at most %d", path, info.Size(), mostBytes)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &State{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%s is damaged (%w): remove it, or give --restart, to begin anew", path, explained(text, err))
	}
	if s.Version != version {
		return nil, fmt.Errorf("%s has version %d: this program reads version %d; give --restart to begin anew", path, s.Version, version)
	}
	for i, r := range s.Runs {
		for _, l := range r.Levels {
			missing, ok := "", true
			for name, n := range l.Models {
				if n == nil {
					missing, ok = name, false
				}
			}
			for _, m := range s.Goal.Models { // reports show them all
				if l.Failure == "" && l.Models[m.Model] == nil {
					missing, ok = m.Model, false
				}
			}
			if !ok {
				return nil, fmt.Errorf("%s is damaged (run %d has no numbers of the model %q): remove it, or give --restart, to begin anew",
					path, i+1, missing)
			}
		}
	}
	return s, nil
}

// explained says where in the text a fault lies.
func explained(text []byte, err error) error {
	at := int64(-1)
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = e.Offset
	} else if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		at = e.Offset
	}
	if at < 0 {
		return err
	}
	line := 1
	for _, c := range text[:min(at, int64(len(text)))] {
		if c == '\n' {
			line++
		}
	}
	return fmt.Errorf("line %d: %w", line, err)
}

// Save writes the checkpoint, whole or not at all.
func (s *State) Save(directory string) error {
	s.Version = version
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	if err := wholefile.Bytes(filepath.Join(directory, Filename), append(text, '\n')); err != nil {
		return fmt.Errorf("what was measured cannot be kept: %w", err)
	}
	return nil
}

// Same says in what two settings differ; "" if runs of both can be compared.
func (s *Setting) Same(o *Setting) string {
	parts := []struct {
		name string
		a, b any
	}{
		{"the models", s.Models, o.Models},
		{"the model repository", s.Repositories, o.Repositories},
		{"the load", s.Load, o.Load},
		{"the options of the server", s.Server, o.Server},
		{"the configurations of the models", s.Configs, o.Configs},
	}
	for _, p := range parts {
		a, _ := json.Marshal(p.a) //nolint:errchkjson // texts
		b, _ := json.Marshal(p.b) //nolint:errchkjson // texts
		if string(a) != string(b) {
			return p.name
		}
	}
	return ""
}

// String is the goal in words.
func (g *GoalOfModel) String() string {
	var parts []string
	for _, m := range slices.Sorted(maps.Keys(g.Objectives)) {
		way := "least"
		if m.Higher() {
			way = "most"
		}
		text := way + " " + m.Title()
		if len(g.Objectives) > 1 {
			text += fmt.Sprintf(" (weight %g)", g.Objectives[m])
		}
		parts = append(parts, text)
	}
	for _, m := range slices.Sorted(maps.Keys(g.Max)) {
		parts = append(parts, fmt.Sprintf("%s at most %.6g", m.Title(), g.Max[m]))
	}
	for _, m := range slices.Sorted(maps.Keys(g.Min)) {
		parts = append(parts, fmt.Sprintf("%s at least %.6g", m.Title(), g.Min[m]))
	}
	return strings.Join(parts, ", ")
}

// Trial is the goal as measurements are compared by it.
func (g *Goal) Trial() trial.Goal {
	out := trial.Goal{}
	for _, m := range g.Models {
		aim := trial.Aim{Objectives: m.Objectives, Weight: m.Weight, Limits: map[trial.Metric]trial.Limit{}}
		for metric, v := range m.Min {
			aim.Limits[metric] = trial.Limit{Min: v, Max: math.NaN()}
		}
		for metric, v := range m.Max {
			l, ok := aim.Limits[metric]
			if !ok {
				l.Min = math.NaN()
			}
			l.Max = v
			aim.Limits[metric] = l
		}
		out[m.Model] = aim
	}
	return out
}
