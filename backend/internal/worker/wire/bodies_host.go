package wire

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/nesoserve/neso/backend"
)

// MetricBody is the body of METRIC. Op is "family" (answered with `family`, a
// number), "create" of a metric in that family (answered with `metric`, a
// number), "increment", "set", "observe" or "value" of the metric with that
// number (the last is answered with `value`), or "release" of a family with all
// its metrics.
type MetricBody struct {
	Op          string            `json:"op"`
	Family      uint64            `json:"family,omitempty"`
	Metric      uint64            `json:"metric,omitempty"`
	Value       Number            `json:"value,omitempty"`
	Name        string            `json:"name,omitempty"`
	Description string            `json:"description,omitempty"`
	Kind        string            `json:"kind,omitempty"` // "counter", "gauge", "histogram"
	Buckets     []Number          `json:"buckets,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
}

// Number is a float64 that may be infinite or NaN, which JSON has no numbers
// for: then it is a text that strconv.ParseFloat and Python's float read.
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	v := float64(n)
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return json.Marshal(strconv.FormatFloat(v, 'g', -1, 64))
	}
	return json.Marshal(v)
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(data []byte) error {
	if len(data) == 0 || data[0] != '"' {
		return json.Unmarshal(data, (*float64)(n))
	}
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	v, err := strconv.ParseFloat(s, 64)
	*n = Number(v)
	return err
}

// ControlBody is the body of CONTROL. Op is "load", "unload", "is_ready"
// (answered with `ready`), "document" (answered with `document`, the answer to
// the Question) or "memory". Version -1 is the latest. Files are base64.
type ControlBody struct {
	Op         string            `json:"op"`
	Model      string            `json:"model"`
	Version    int64             `json:"version,omitempty"`
	Config     string            `json:"config,omitempty"`
	Files      map[string][]byte `json:"files,omitempty"`
	Dependents bool              `json:"dependents,omitempty"`
	Question   *backend.Question `json:"question,omitempty"`
	Memory     *MemoryBody       `json:"memory,omitempty"`
}

// MaxMemoryUsage bounds the figures of a MemoryBody.
const MaxMemoryUsage = 4096

// MemoryTypes are those that a figure may be of, by their numbers in the C interface; the
// last one stands for all that are none.
var MemoryTypes = []string{"CPU", "CPU_PINNED", "GPU", "<invalid>"}

// MemoryBody is the memory that a model, or an instance, says that it has: all of it.
type MemoryBody struct {
	// Model and Instance are numbers in the worker. Instance is 0 for the model itself,
	// and Model means nothing for an instance.
	Model    uint32                `json:"model,omitempty"`
	Instance uint32                `json:"instance,omitempty"`
	Usage    []backend.MemoryUsage `json:"usage"`
}
