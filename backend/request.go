package backend

import (
	"context"
	"slices"
	"time"

	"github.com/nesoserve/neso/tensor"
)

// Request is one inference request as a backend sees it. All fields but Report are
// read-only for backends.
type Request struct {
	ID           string
	ModelName    string
	ModelVersion int64
	Correlation  CorrelationID
	Flags        Flags
	Priority     uint64
	// Timeout is the request's own, in microseconds; 0 means none.
	Timeout uint64
	// Parameters are the custom ones, in the order of the request.
	Parameters []Parameter
	// Inputs come in the order of the configuration, see Capabilities.KeepsOrder;
	// those of a sequence's controls and states stand behind them.
	Inputs []tensor.Tensor
	// Requested names the outputs to return. Once a request is admitted it is empty
	// for those alone that fill a slot of the direct sequence strategy.
	Requested []string
	// BatchSize is the size of the batch dimension, or 0 when the model does not
	// batch.
	BatchSize int
	// Trace is the propagation context of a traced request, or "".
	Trace string
	// Caller is where a request to Host.Infer comes from; the zero value means no
	// model.
	Caller Caller
	// Calls, if not nil, takes note of the requests that are sent for this one. It is
	// the server's: a backend that sends some has it stand in their Caller.For.
	Calls any

	// TakesDevice says whether who sent the request takes outputs on that GPU, see
	// tensor.DeviceMemory. nil, as in every request of a client: none.
	TakesDevice func(tensor.GPU) bool

	// Sender, if not nil, is the program that has sent the request.
	Sender Sender

	// Ctx ends when the client is gone or the server gives the request up.
	Ctx context.Context
	// Responder takes the answers; backends call Respond.
	Responder Responder
	// Iterations is the scheduler of a model with iterative sequences; nil for all
	// others. Backends call Settle and Reschedule.
	Iterations Iterations
	// Report is what the model itself says of the request, where it does: it counts in the
	// statistics in place of what the server measures. The backend sets it before the final
	// response, if at all.
	Report *Report
}

// Caller is the model that sends a request to another one.
type Caller struct {
	// Model and Instance are names; Instance is that of an InstanceConfig.
	Model, Instance string
	// Version is the caller's version; Of says how many instances it has.
	Version int64
	Of      int
	// Waits says that the instance executes a batch meanwhile. That batch probably
	// waits for the answer. Abandoned says that nobody waits for that batch.
	Waits, Abandoned bool
	// Single says that the caller takes one response: a decoupled model refuses.
	Single bool
	// For are the Calls of the requests that the caller executes meanwhile, as far as
	// they have any. It is nil where it cannot be told which of them sends the request.
	For []any
}

// Responder is the server's end of a request.
type Responder interface {
	// Respond delivers one response; see Request.Respond.
	Respond(resp *Response, final bool) error
	// Cancelled reports whether nobody waits for the answer any more.
	Cancelled() bool
}

// Iterations takes a request back and hands it to the model again. It wants to
// know when a batch ends which of its requests come back.
type Iterations interface {
	// Reschedule hands the request to the model again; see Request.Reschedule.
	Reschedule() error
	// Settle says whether Reschedule will follow; see Request.Settle.
	Settle(again bool)
}

// Settle says, before Execute returns, whether the request will be given back
// with Reschedule once its responses are delivered, or never will: the model is
// done with it, though responses may still come. A backend whose requests
// answer late calls it, so that the next batch waits for those that come back
// and for no others.
func (r *Request) Settle(again bool) {
	if r.Iterations != nil {
		r.Iterations.Settle(again)
	}
}

// Reschedule gives the request back, in place of a final response: the
// scheduler hands it to the model again, in a later batch and without sequence
// flags. It fails for a model without iterative sequences; the final response
// is then still owed. The request and its inputs may not be used after it.
func (r *Request) Reschedule() error {
	if r.Iterations != nil {
		return r.Iterations.Reschedule()
	}
	return Errorf(InvalidArg,
		"Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is not configured to handle such a flag.")
}

// Respond gives one response. A nil resp with final set ends the request
// without a further response; without final nothing is sent, and the statistics of
// a decoupled model have an empty response. The call consumes the references of the
// response's tensors, whatever it returns. It may wait until the client has
// room. It fails after the final response, and when the request is cancelled;
// the final response is owed all the same. It may be called from any
// goroutine, one at a time per request.
func (r *Request) Respond(resp *Response, final bool) error {
	return r.Responder.Respond(resp, final)
}

// Cancelled reports whether nobody waits for the answer any more. It is cheap
// enough to poll.
func (r *Request) Cancelled() bool { return r.Responder.Cancelled() }

// Input returns the input with the given name, or nil.
func (r *Request) Input(name string) *tensor.Tensor {
	for i := range r.Inputs {
		if r.Inputs[i].Name == name {
			return &r.Inputs[i]
		}
	}
	return nil
}

// Wants reports whether the client asked for the output.
func (r *Request) Wants(output string) bool {
	return slices.Contains(r.Requested, output)
}

// Response is one answer: outputs, or an error.
type Response struct {
	Outputs    []tensor.Tensor
	Parameters []Parameter
	// Err makes the response an error; Outputs are then ignored.
	Err *Error
	// OutputStart is when, by Now, the model was done with this response and its
	// outputs were begun to be made; 0 for not known. Statistics of a decoupled
	// model divide the time since the response before by it.
	OutputStart int64
}

// Release drops the references of the outputs.
func (r *Response) Release() {
	if r == nil {
		return
	}
	for i := range r.Outputs {
		r.Outputs[i].Release()
	}
	r.Outputs = nil
}

// CorrelationID names a sequence, by number or by text. The zero value means
// no sequence.
type CorrelationID struct {
	Number uint64
	Text   string
}

// IsZero reports whether the request belongs to no sequence.
func (c CorrelationID) IsZero() bool { return c.Number == 0 && c.Text == "" }

// Flags mark the place of a request in its sequence.
type Flags uint32

// Request flags, with the numbers of the C API.
const (
	SequenceStart Flags = 1
	SequenceEnd   Flags = 2
)

var epoch = time.Now()

// Now returns monotonic nanoseconds since the process began. All timestamps of
// requests are of this clock. It is at least 1.
func Now() int64 { return int64(time.Since(epoch)) + 1 }

// Time returns the wall-clock time of a timestamp taken by Now.
func Time(now int64) time.Time { return epoch.Add(time.Duration(now - 1)) }
