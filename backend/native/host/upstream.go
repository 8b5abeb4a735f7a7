package host

import (
	"encoding/json"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/guest"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

type (
	// Call is an inference request of a library to a model of the server.
	Call = guest.Call
	// Metric is one operation on a custom metric.
	Metric = wire.MetricBody
	// Control is one operation on a model, or a question about it.
	Control = wire.ControlBody
	// Memory is the memory that a model, or an instance, says that it has.
	Memory = wire.MemoryBody
	// Number is a value of a metric.
	Number = wire.Number
)

// MaxMemoryUsage is wire.MaxMemoryUsage.
const MaxMemoryUsage = wire.MaxMemoryUsage

// MemoryType returns the name of a type of memory, as Memory has it, by its number in the C
// interface.
func MemoryType(number int) string {
	invalid := len(wire.MemoryTypes) - 1
	if number < 0 || number > invalid {
		number = invalid
	}
	return wire.MemoryTypes[number]
}

// Infer sends a request to another model, from the instance of that number or, with 0,
// from none; see guest.Guest.Infer.
func (s *Server) Infer(instance uint32, r *backend.Request, many bool, respond func(*backend.Response, bool)) (*Call, error) {
	return s.guest.Infer(instance, r, many, respond)
}

// Activity notes something on the timeline of a traced request; see guest.Guest.Activity.
func (s *Server) Activity(at uint64, trace, name string) error {
	return s.guest.Activity(at, trace, name)
}

// Responded says what the instance of that number did for a response, see
// wire.ReportResponse.
func (s *Server) Responded(instance uint32, r Report) error { return s.guest.Responded(instance, r) }

// Measure does an operation on a custom metric; answer may be nil.
func (s *Server) Measure(m Metric, answer any) error { return s.ask(wire.KindMetric, m, answer) }

// Control does an operation on a model; answer may be nil.
func (s *Server) Control(c Control, answer any) error { return s.ask(wire.KindControl, c, answer) }

func (s *Server) ask(kind wire.Kind, body, answer any) error {
	text, err := s.guest.Ask(kind, body)
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(text, answer)
}
