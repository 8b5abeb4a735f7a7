package worker

// metricBody is the body of METRIC. Op is "create" (answered with `metric`, a
// number), "increment", "set", "observe", "value" (answered with `value`) or
// "release" of the metric with that number.
type metricBody struct {
	Op          string            `json:"op"`
	Metric      uint64            `json:"metric,omitempty"`
	Value       float64           `json:"value,omitempty"`
	Name        string            `json:"name,omitempty"`
	Description string            `json:"description,omitempty"`
	Kind        string            `json:"kind,omitempty"` // "counter", "gauge", "histogram"
	Buckets     []float64         `json:"buckets,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
}

// controlBody is the body of CONTROL. Op is "load", "unload" or "is_ready"
// (answered with `ready`). Version -1 is the latest. Files are base64.
type controlBody struct {
	Op         string            `json:"op"`
	Model      string            `json:"model"`
	Version    int64             `json:"version,omitempty"`
	Config     string            `json:"config,omitempty"`
	Files      map[string][]byte `json:"files,omitempty"`
	Dependents bool              `json:"dependents,omitempty"`
}
