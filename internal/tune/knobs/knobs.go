// Package knobs owns what can be turned at a model: its instances, batches, delays,
// threads and where it runs, each with the values worth trying, and what becomes of its
// configuration then. Open knobs.go first, then values.go.
package knobs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/internal/modelconfig/edit"
)

// Value is what a knob may stand at.
type Value struct {
	Label   string
	Changes []edit.Change // none as it is
}

// Knob is one of a model.
type Knob struct {
	Model, Name string
	Values      []Value
	Start       int // the value as it is
}

// The names of the knobs.
const (
	Instances = "instances"
	Batch     = "max_batch_size"
	Delay     = "queue_delay"
	Preferred = "preferred_batch_size"
	Threads   = "threads"
	Isolation = "isolation"
)

// Names are all of them.
var Names = []string{Instances, Batch, Delay, Preferred, Threads, Isolation}

// Config is what must be known of a model's configuration, as the server has completed it.
type Config struct {
	Name, Backend, Platform string
	MaxBatch                int `json:"max_batch_size"`
	Instances               []struct {
		Count int
		Kind  string
	} `json:"instance_group"`
	Dynamic *struct {
		Preferred []int  `json:"preferred_batch_size"`
		Delay     number `json:"max_queue_delay_microseconds"`
	} `json:"dynamic_batching"`
	Sequence   json.RawMessage `json:"sequence_batching"`
	Scheduling *struct {
		Step []struct {
			Model string `json:"model_name"`
		}
	} `json:"ensemble_scheduling"`
	Parameters map[string]struct {
		Text string `json:"string_value"`
	}
}

// number is one that may be in quotation marks.
type number int64

func (n *number) UnmarshalJSON(b []byte) error {
	i, err := strconv.ParseInt(strings.Trim(string(b), `"`), 10, 64)
	*n = number(i)
	return err
}

// Read reads a configuration in the protocol's JSON form.
func Read(text []byte) (*Config, error) {
	c := &Config{}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("the model's configuration: %w", err)
	}
	return c, nil
}

// Ensemble reports whether the model is nothing but other ones.
func (c *Config) Ensemble() bool { return c.Scheduling != nil }

// Composing are the models of an ensemble.
func (c *Config) Composing() []string {
	if c.Scheduling == nil {
		return nil
	}
	var all []string
	for _, s := range c.Scheduling.Step {
		if !slices.Contains(all, s.Model) {
			all = append(all, s.Model)
		}
	}
	return all
}

// Space says which values are tried.
type Space struct {
	// Knobs are the names of those that are turned; nil all that the model has.
	Knobs []string
	// Values, by the names of knobs, stand in place of those that would be chosen.
	Values map[string][]string
	// Fields are other fields of the configuration, each with what it may be.
	Fields []Field
	Cores  int
	// Isolatable are the backends that can run in a process of their own.
	Isolatable []string
	// Small leaves out all that was not asked for.
	Small bool
}

// Field is a field of the configuration with its values, in JSON.
type Field struct {
	Name   string
	Values []json.RawMessage
}

// Of returns the knobs of a model with the values to try.
func (s *Space) Of(c *Config) ([]Knob, error) {
	var all []Knob
	for _, name := range Names {
		k, err := s.knob(c, name)
		if err != nil {
			return nil, err
		}
		if k != nil && !s.field(name) && len(k.Values) > 1 {
			all = append(all, *k)
		}
	}
	for _, f := range s.Fields {
		k := Knob{Model: c.Name, Name: f.Name}
		k.Values = append(k.Values, Value{Label: "as it is"})
		for _, v := range f.Values {
			k.Values = append(k.Values, Value{label(v), []edit.Change{{Field: f.Name, Value: v}}})
		}
		all = append(all, k)
	}
	return all, nil
}

// field reports whether a field of the configuration stands for the knob.
func (s *Space) field(knob string) bool {
	stands := map[string]string{Instances: "instance_group", Batch: "max_batch_size", Delay: "dynamic_batching", Preferred: "dynamic_batching"}
	return stands[knob] != "" && slices.ContainsFunc(s.Fields, func(f Field) bool {
		return f.Name == stands[knob] || strings.HasPrefix(f.Name, stands[knob]+".")
	})
}

func label(v json.RawMessage) string {
	var text string
	if json.Unmarshal(v, &text) == nil {
		return text
	}
	return string(v)
}

// knob returns one of a model, nil if the model has none such or it is not to be turned.
func (s *Space) knob(c *Config, name string) (*Knob, error) {
	given := s.Values[name]
	if len(given) == 0 && (s.Small || s.Knobs != nil && !slices.Contains(s.Knobs, name)) || c.Ensemble() {
		return nil, nil
	}
	make := map[string]func(*Config, []string) (*Knob, error){
		Instances: s.instances, Batch: s.batch, Delay: s.delay, Preferred: s.preferred, Threads: s.threads, Isolation: s.isolation,
	}[name]
	k, err := make(c, given)
	if k != nil {
		k.Model, k.Name = c.Name, name
	}
	if err != nil {
		err = fmt.Errorf("the knob %s of the model %s: %w", name, c.Name, err)
	}
	return k, err
}

// Variant returns the changes of the models, and the labels of all knobs, at a point.
func Variant(all []Knob, point []int) (changes map[string][]edit.Change, labels map[string]string) {
	labels = map[string]string{}
	one := true
	for _, k := range all {
		one = one && k.Model == all[0].Model
	}
	off := map[string]bool{} // models whose batcher is off: nothing of it matters
	for i, k := range all {
		if k.Name == Delay && k.Values[point[i]].Label == Off {
			off[k.Model] = true
		}
	}
	for i, k := range all {
		v := k.Values[point[i]]
		name := k.Name
		if !one {
			name = k.Model + ":" + k.Name
		}
		if k.Name == Preferred && off[k.Model] {
			labels[name] = "none"
			continue
		}
		labels[name] = v.Label
		if point[i] == k.Start || len(v.Changes) == 0 {
			continue
		}
		if changes == nil {
			changes = map[string][]edit.Change{}
		}
		changes[k.Model] = append(changes[k.Model], v.Changes...)
	}
	return changes, labels
}
