package top

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/nesoserve/neso/client"
)

// Look is what a server says at one moment.
type Look struct {
	At    time.Time
	Index []client.IndexEntry
	// Models are the statistics of the versions that are loaded.
	Models []Statistics
	// Series are the metrics; nil where they cannot be read.
	Series []Series
}

// Statistics are those of one version, of which the protocol's form has more.
type Statistics struct {
	Name       string              `json:"name"`
	Version    string              `json:"version"`
	Inferences float64             `json:"inference_count"`
	Executions float64             `json:"execution_count"`
	Requests   map[string]Duration `json:"inference_stats"`
	Batches    []struct {
		Input  Duration `json:"compute_input"`
		Infer  Duration `json:"compute_infer"`
		Output Duration `json:"compute_output"`
	} `json:"batch_stats"`
	Memory []struct {
		Bytes float64 `json:"byte_size"`
	} `json:"memory_usage"`
}

// Duration is how often something took place, and how long that took in sum.
type Duration struct {
	Count float64 `json:"count"`
	Nanos float64 `json:"ns"`
}

// ReadStatistics reads the answer to GET /v2/models/stats.
func ReadStatistics(text []byte) ([]Statistics, error) {
	var all struct {
		Models []Statistics `json:"model_stats"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("the server's statistics: %w", err)
	}
	return all.Models, nil
}

// executing is how long batches have been executed, each counted once.
func (s *Statistics) executing() (nanos float64) {
	for _, b := range s.Batches {
		nanos += b.Input.Nanos + b.Infer.Nanos + b.Output.Nanos
	}
	return nanos
}

func (s *Statistics) memory() (bytes float64) {
	for _, m := range s.Memory {
		bytes += m.Bytes
	}
	return bytes
}
