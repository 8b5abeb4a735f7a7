package knobs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/internal/modelconfig/edit"
)

// Off is the value of Delay for a model without a dynamic batcher.
const Off = "off"

// The most of what is tried unless more is asked for.
const (
	mostInstances = 8
	mostBatch     = 64
	mostNumber    = 1 << 20
)

// numbers reads a list of numbers; none is what otherwise holds.
func numbers(given []string, least int, otherwise []int) ([]int, error) {
	if len(given) == 0 {
		return otherwise, nil
	}
	var all []int
	for _, g := range given {
		n, err := strconv.Atoi(g)
		if err != nil || n < least || n > mostNumber {
			return nil, fmt.Errorf("expected a number from %d to %d, found %q", least, mostNumber, g)
		}
		all = append(all, n)
	}
	return all, nil
}

// doubling is 1, 2, 4, ... up to most.
func doubling(first, most int) []int {
	var all []int
	for n := first; n <= most; n *= 2 {
		all = append(all, n)
	}
	return all
}

// counted makes a knob of numbers, sorted, with the one that is there among them.
func counted(values []int, now int, changes func(n int) []edit.Change) *Knob {
	values = append(slices.Clone(values), now)
	slices.Sort(values)
	k := &Knob{}
	for _, n := range slices.Compact(values) {
		if n == now {
			k.Start = len(k.Values)
		}
		k.Values = append(k.Values, Value{strconv.Itoa(n), changes(n)})
	}
	return k
}

func change(field string, value any) edit.Change {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // numbers, texts and lists of them
	}
	return edit.Change{Field: field, Value: text}
}

func (s *Space) instances(c *Config, given []string) (*Knob, error) {
	now := 1
	if len(c.Instances) > 0 && c.Instances[0].Count > 0 {
		now = c.Instances[0].Count
	}
	values, err := numbers(given, 1, doubling(1, min(max(s.Cores, 2), mostInstances)))
	return counted(values, now, func(n int) []edit.Change { return []edit.Change{change(edit.InstanceCount, n)} }), err
}

func (s *Space) batch(c *Config, given []string) (*Knob, error) {
	if c.MaxBatch == 0 {
		return nil, nil // that a model batches is written in the model
	}
	values, err := numbers(given, 1, doubling(max(1, c.MaxBatch/4), max(mostBatch, c.MaxBatch)))
	return counted(values, c.MaxBatch, func(n int) []edit.Change { return []edit.Change{change(Batch, n)} }), err
}

// batches reports whether a dynamic batcher can be had.
func (c *Config) batches() bool {
	return c.MaxBatch > 0 && (len(c.Sequence) == 0 || string(c.Sequence) == "null")
}

const delayField = "dynamic_batching.max_queue_delay_microseconds"

func (s *Space) delay(c *Config, given []string) (*Knob, error) {
	if !c.batches() {
		return nil, nil
	}
	k := &Knob{Values: []Value{{Off, []edit.Change{{Field: "dynamic_batching", Value: json.RawMessage("null")}}}}}
	values := []int{0, 100, 1000}
	if len(given) > 0 {
		if !slices.Contains(given, Off) && c.Dynamic != nil {
			k.Values = nil
		}
		var err error
		rest := slices.DeleteFunc(slices.Clone(given), func(g string) bool { return g == Off })
		if values, err = numbers(rest, 0, nil); err != nil {
			return nil, fmt.Errorf("%w (microseconds, or %s)", err, Off)
		}
	}
	if c.Dynamic != nil {
		values = append(values, int(c.Dynamic.Delay))
	}
	slices.Sort(values)
	for _, n := range slices.Compact(values) {
		if c.Dynamic != nil && int(c.Dynamic.Delay) == n {
			k.Start = len(k.Values)
		}
		k.Values = append(k.Values, Value{strconv.Itoa(n), []edit.Change{change("dynamic_batching", struct{}{}), change(delayField, n)}})
		if c.Dynamic != nil { // what else it says stays
			last := &k.Values[len(k.Values)-1]
			last.Changes = last.Changes[1:]
		}
	}
	return k, nil
}

func (s *Space) preferred(c *Config, given []string) (*Knob, error) {
	if !c.batches() {
		return nil, nil
	}
	now := "none"
	if c.Dynamic != nil && len(c.Dynamic.Preferred) > 0 {
		now = join(c.Dynamic.Preferred)
	}
	if len(given) == 0 {
		given = []string{"none"}
		if half := c.MaxBatch / 2; half > 1 {
			given = append(given, strconv.Itoa(half))
		}
	}
	if !slices.Contains(given, now) {
		given = append([]string{now}, given...)
	}
	const field = "dynamic_batching.preferred_batch_size"
	k := &Knob{}
	for _, g := range given {
		if g == now {
			k.Start = len(k.Values)
		}
		if g == "none" {
			k.Values = append(k.Values, Value{g, []edit.Change{{Field: field, Value: json.RawMessage("null")}}})
			continue
		}
		sizes, err := numbers(strings.Split(g, "+"), 1, nil)
		if err != nil {
			return nil, fmt.Errorf("%w (sizes joined by +, or none)", err)
		}
		k.Values = append(k.Values, Value{g, []edit.Change{change(field, sizes)}})
	}
	return k, nil
}

func join(all []int) string {
	var texts []string
	for _, n := range all {
		texts = append(texts, strconv.Itoa(n))
	}
	return strings.Join(texts, "+")
}

// threadsOf names the parameter with the threads of an operator, by the backend.
var threadsOf = map[string]string{
	"onnxruntime": "intra_op_thread_count", "openvino": "INFERENCE_NUM_THREADS", "pytorch": "INTRA_OP_THREAD_COUNT",
	"tensorflow": "TF_NUM_INTRA_THREADS",
}

// standard is the value of a parameter that is not there.
const standard = "default"

func (s *Space) threads(c *Config, given []string) (*Knob, error) {
	key, ok := threadsOf[c.Backend]
	if !ok {
		if len(given) > 0 {
			return nil, fmt.Errorf("the backend %q has no parameter for it", c.Backend)
		}
		return nil, nil
	}
	if len(given) == 0 {
		given = []string{standard}
		for _, n := range doubling(1, max(s.Cores, 1)) {
			given = append(given, strconv.Itoa(n))
		}
	}
	for _, g := range given {
		if g != standard {
			if _, err := numbers([]string{g}, 0, nil); err != nil {
				return nil, err
			}
		}
	}
	return parameter(c, key, standard, given), nil
}

// parameter makes a knob of a parameter's values, none being one that takes it away.
func parameter(c *Config, key, none string, given []string) *Knob {
	now := none
	if p, ok := c.Parameters[key]; ok {
		now = p.Text
	}
	if !slices.Contains(given, now) {
		given = append([]string{now}, given...)
	}
	k := &Knob{}
	for _, g := range given {
		if g == now {
			k.Start = len(k.Values)
		}
		v := Value{g, []edit.Change{change(edit.ParameterPrefix+key, g)}}
		if g == none {
			v.Changes = []edit.Change{{Field: edit.ParameterPrefix + key, Value: json.RawMessage("null")}}
		}
		k.Values = append(k.Values, v)
	}
	return k
}

// In the server's process, or in one of its own.
const (
	inServer  = "none"
	inProcess = "process"
)

func (s *Space) isolation(c *Config, given []string) (*Knob, error) {
	if !slices.Contains(s.Isolatable, c.Backend) {
		if len(given) > 0 {
			return nil, fmt.Errorf("the backend %q has no choice of it", c.Backend)
		}
		return nil, nil
	}
	if len(given) == 0 {
		given = []string{inServer, inProcess}
	}
	for _, g := range given {
		if g != inServer && g != inProcess {
			return nil, fmt.Errorf("expected %s or %s, found %q", inServer, inProcess, g)
		}
	}
	return parameter(c, "isolation", inServer, given), nil
}
