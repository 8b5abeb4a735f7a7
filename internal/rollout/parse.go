package rollout

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxFaults bounds how many faults one error tells.
const maxFaults = 20

// Change is what a text asks for.
type Change struct {
	Rules Rules
	// Resume ends a step back; so does a text that says new weights or bounds.
	Resume bool
}

// Parse reads a file of rules, in YAML. file is what errors call it.
func Parse(text []byte, file string) (Rules, error) {
	c, err := parse(Rules{}, text, file, false)
	return c.Rules, err
}

// Amend reads a change of base: a section that it has replaces that of base, labels are
// set one by one, and null takes a section or a label away. JSON is YAML too.
func Amend(base Rules, text []byte, file string) (Change, error) {
	return parse(base, text, file, true)
}

func parse(base Rules, text []byte, file string, amend bool) (Change, error) {
	c := Change{Rules: base}
	if len(text) > MaxText {
		return c, fmt.Errorf("%s has %d bytes, the limit is %d", file, len(text), MaxText)
	}
	var doc yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	err := decoder.Decode(&doc)
	if err == nil {
		var more yaml.Node
		if err = decoder.Decode(&more); err == nil {
			return c, fmt.Errorf("%s:%d: a second document begins here, expected one", file, more.Line)
		}
	}
	if !errors.Is(err, io.EOF) {
		return c, fmt.Errorf("%s: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	r := &reader{file: file, amend: amend}
	if len(doc.Content) == 0 { // an empty file
		return c, nil
	}
	r.top(&c, doc.Content[0])
	return c, r.err()
}

// reader reads a document and collects its faults.
type reader struct {
	file   string
	amend  bool
	faults []error
	more   int
}

func (r *reader) fault(n *yaml.Node, field, format string, args ...any) {
	if len(r.faults) == maxFaults {
		r.more++
		return
	}
	if field != "" {
		field += ": "
	}
	r.faults = append(r.faults, fmt.Errorf("%s:%d: %s%s", r.file, n.Line, field, fmt.Sprintf(format, args...)))
}

func (r *reader) err() error {
	if r.more > 0 {
		r.faults = append(r.faults, fmt.Errorf("and %d more", r.more))
	}
	return errors.Join(r.faults...)
}

func (r *reader) top(c *Change, n *yaml.Node) {
	for key, value := range r.fields(n, "", "labels", "weights", "sticky", "mirror", "step_back", "resume") {
		gone := isNull(value)
		switch key {
		case "labels":
			r.labels(c, value)
		case "weights":
			c.Rules.Weights, c.Resume = r.weights(value), true
		case "sticky":
			c.Rules.Sticky = r.sticky(value)
		case "mirror":
			if c.Rules.Mirror = nil; !gone {
				c.Rules.Mirror = r.mirror(value)
			}
		case "step_back":
			if c.Rules.StepBack, c.Resume = nil, true; !gone {
				c.Rules.StepBack = r.stepBack(value)
			}
		case "resume":
			if !r.amend {
				r.fault(value, key, "it is an order to a running server, not a rule")
			}
			c.Resume = r.boolean(value, key) || c.Resume
		}
	}
}

// fields yields the fields of a mapping, each once.
func (r *reader) fields(n *yaml.Node, in string, known ...string) func(yield func(key string, value *yaml.Node) bool) {
	return func(yield func(string, *yaml.Node) bool) {
		if n.Kind != yaml.MappingNode {
			r.fault(n, in, "expected fields (%s), got %s", strings.Join(known, ", "), found(n))
			return
		}
		var seen []string
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			name := path(in, clip(key.Value))
			switch {
			case key.Kind != yaml.ScalarNode:
				r.fault(key, in, "expected the name of a field, got %s", found(key))
			case len(known) > 0 && !slices.Contains(known, key.Value):
				r.fault(key, name, "there is no such field, expected one of %s", strings.Join(known, ", "))
			case slices.Contains(seen, key.Value):
				r.fault(key, name, "it stands here twice")
			case value.Kind == yaml.AliasNode || value.Anchor != "":
				r.fault(value, name, "anchors and aliases are not taken")
			default:
				seen = append(seen, key.Value)
				if !yield(key.Value, value) {
					return
				}
			}
		}
	}
}

func (r *reader) labels(c *Change, n *yaml.Node) {
	if isNull(n) {
		c.Rules.Labels = nil
		return
	}
	labels := maps.Clone(c.Rules.Labels)
	if labels == nil {
		labels = map[string]int64{}
	}
	for name, value := range r.fields(n, "labels") {
		field := path("labels", clip(name))
		switch {
		case !IsLabel(name):
			r.fault(value, field, "a label has 1 to 64 letters, digits, '.', '_' and '-', and begins with a letter")
		case isNull(value) && r.amend:
			delete(labels, name)
		default:
			v, err := strconv.ParseInt(value.Value, 10, 64)
			if value.Kind != yaml.ScalarNode || err != nil || v < 1 {
				r.fault(value, field, "expected the number of a version, got %s", found(value))
				continue
			}
			labels[name] = v
		}
	}
	if len(labels) > maxLabels {
		r.fault(n, "labels", "there are %d, the most is %d", len(labels), maxLabels)
	}
	c.Rules.Labels = labels
}

func (r *reader) weights(n *yaml.Node) []Weight {
	if isNull(n) {
		return nil
	}
	var all []Weight
	sum := int64(0)
	for name, value := range r.fields(n, "weights") {
		field := path("weights", clip(name))
		to, err := ref(name)
		if err != nil {
			r.fault(value, field, "%v", err)
			continue
		}
		w, err := strconv.ParseInt(value.Value, 10, 64)
		if value.Kind != yaml.ScalarNode || err != nil || w < 0 || w > maxWeight {
			r.fault(value, field, "expected a whole number from 0 to %d, got %s", maxWeight, found(value))
			continue
		}
		if len(all) < maxWeights {
			all = append(all, Weight{to, w})
		} else if len(all) == maxWeights {
			r.fault(value, "weights", "there are more than %d", maxWeights)
			return all
		}
		sum += w
	}
	slices.SortFunc(all, func(a, b Weight) int { return strings.Compare(a.To.String(), b.To.String()) })
	if sum == 0 && len(r.faults) == 0 {
		r.fault(n, "weights", "their sum is 0, expected one above it")
	}
	return all
}

// sticky reads the name of a header. Those that carry secrets, or that a proxy writes
// for each hop, are none.
func (r *reader) sticky(n *yaml.Node) string {
	if isNull(n) {
		return ""
	}
	name := strings.ToLower(n.Value)
	valid := n.Kind == yaml.ScalarNode && name != "" && len(name) <= 128
	for i := range len(name) {
		c := name[i]
		valid = valid && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.')
	}
	switch {
	case !valid:
		r.fault(n, "sticky", "expected the name of a header: letters, digits, '-', '_' and '.', got %s", found(n))
	case name == "authorization" || name == "x-api-key" || name == "cookie" || strings.HasSuffix(name, "-bin"):
		r.fault(n, "sticky", "'%s' is not a header to go by", name)
	}
	return name
}

func (r *reader) mirror(n *yaml.Node) *Mirror {
	m := &Mirror{Concurrency: defaultConcurrency, Queue: defaultQueue, Timeout: defaultTimeout, Percent: 100}
	to := false
	for key, value := range r.fields(n, "mirror", "to", "percent", "tolerance", "concurrency", "queue", "timeout") {
		field := path("mirror", key)
		switch key {
		case "to":
			m.To, to = r.ref(value, field), true
		case "percent":
			m.Percent = r.number(value, field, 0, 100)
		case "tolerance":
			for key, value := range r.fields(value, field, "absolute", "relative") {
				if v := r.number(value, path(field, key), 0, math.MaxFloat64); key == "absolute" {
					m.Tolerance.Absolute = v
				} else {
					m.Tolerance.Relative = v
				}
			}
		case "concurrency":
			m.Concurrency = int(r.integer(value, field, 1, 256))
		case "queue":
			m.Queue = int(r.integer(value, field, 0, 65536))
		case "timeout":
			m.Timeout = r.duration(value, field, time.Millisecond, time.Hour)
		}
	}
	if !to {
		r.fault(n, "mirror.to", "it is missing, expected a label or the number of a version")
	}
	return m
}

func (r *reader) stepBack(n *yaml.Node) *StepBack {
	s := &StepBack{Window: defaultWindow, MinRequests: defaultMinRequests, MaxErrorRate: -1, Quantile: defaultQuantile}
	from := false
	for key, value := range r.fields(n, "step_back", "from", "window", "min_requests", "max_error_rate", "max_latency", "quantile",
		"max_latency_ratio") {
		field := path("step_back", key)
		switch key {
		case "from":
			s.From, from = r.ref(value, field), true
		case "window":
			s.Window = r.duration(value, field, time.Second, 24*time.Hour)
		case "min_requests":
			s.MinRequests = r.integer(value, field, 1, 1e9)
		case "max_error_rate":
			s.MaxErrorRate = r.number(value, field, 0, 1)
		case "max_latency":
			s.MaxLatency = r.duration(value, field, time.Microsecond, time.Hour)
		case "quantile":
			s.Quantile = r.number(value, field, 0.01, 1)
		case "max_latency_ratio":
			s.MaxLatencyRatio = r.number(value, field, 1, 1e6)
		}
	}
	if !from {
		r.fault(n, "step_back.from", "it is missing, expected a label or the number of a version")
	}
	if s.MaxErrorRate < 0 && s.MaxLatency == 0 && s.MaxLatencyRatio == 0 && len(r.faults) == 0 {
		r.fault(n, "step_back", "there is no bound, expected max_error_rate, max_latency or max_latency_ratio")
	}
	return s
}

// ref reads the name of a version.
func ref(text string) (Ref, error) {
	if v, err := strconv.ParseInt(text, 10, 64); err == nil && v > 0 {
		return Ref{Version: v}, nil
	}
	if !IsLabel(text) {
		return Ref{}, fmt.Errorf("expected a label or the number of a version, got '%s'", clip(text))
	}
	return Ref{Label: text}, nil
}

func (r *reader) ref(n *yaml.Node, field string) Ref {
	if n.Kind != yaml.ScalarNode || isNull(n) {
		r.fault(n, field, "expected a label or the number of a version, got %s", found(n))
		return Ref{}
	}
	to, err := ref(n.Value)
	if err != nil {
		r.fault(n, field, "%v", err)
	}
	return to
}

func (r *reader) number(n *yaml.Node, field string, least, most float64) float64 {
	v, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || err != nil || math.IsNaN(v) || v < least || v > most {
		if most == math.MaxFloat64 {
			r.fault(n, field, "expected a number of at least %v, got %s", least, found(n))
		} else {
			r.fault(n, field, "expected a number from %v to %v, got %s", least, most, found(n))
		}
		return least
	}
	return v
}

func (r *reader) integer(n *yaml.Node, field string, least, most int64) int64 {
	v, err := strconv.ParseInt(n.Value, 10, 64)
	if n.Kind != yaml.ScalarNode || err != nil || v < least || v > most {
		r.fault(n, field, "expected a whole number from %d to %d, got %s", least, most, found(n))
		return least
	}
	return v
}

func (r *reader) duration(n *yaml.Node, field string, least, most time.Duration) time.Duration {
	v, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || v < least || v > most {
		r.fault(n, field, "expected a time from %s to %s, such as 30s, got %s", least, most, found(n))
		return least
	}
	return v
}

func (r *reader) boolean(n *yaml.Node, field string) bool {
	if n.Kind != yaml.ScalarNode || n.Value != "true" && n.Value != "false" {
		r.fault(n, field, "expected true or false, got %s", found(n))
	}
	return n.Value == "true"
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func path(in, name string) string {
	if in == "" {
		return name
	}
	return in + "." + name
}

// found says what stands at a place, not longer than a line.
func found(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "fields"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	default:
		if isNull(n) {
			return "nothing"
		}
		return "'" + clip(n.Value) + "'"
	}
}

// clip shortens a text of somebody else's.
func clip(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "..."
	}
	return s
}
