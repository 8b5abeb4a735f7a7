package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/guest"
	"github.com/nesoserve/neso/backend/internal/worker/near"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

type (
	// Request is one inference request of a batch.
	Request = guest.Request
	// Answer is a response to one.
	Answer = guest.Answer
	// Output is one tensor of an answer.
	Output = guest.Output
	// Block is memory for an output.
	Block = guest.Block
	// Report is what is said of the execution of a request or a batch.
	Report = wire.Report
)

// Flags of Report.
const (
	ReportBatch     = wire.ReportBatch
	ReportFailed    = wire.ReportFailed
	ReportResponse  = wire.ReportResponse
	ReportEmpty     = wire.ReportEmpty
	ReportCancelled = wire.ReportCancelled
)

// ErrOverrun is what Block.Check says of memory that was written to behind its end.
var ErrOverrun = guest.ErrOverrun

// InProcess is guest.InProcess.
const InProcess = guest.InProcess

// Library loads models and runs them. Its methods are called one at a time for each
// model, and Init beside others of its model where Init.Parallel says so; what Init
// returns is called by a thread of the instance's own.
type Library interface {
	Load(l *Load) (*Loaded, error)
	Init(number uint32, i *Init) (execute func([]*Request) error, err error)
	// End ends an instance, Unload a model without instances.
	End(number uint32) error
	Unload(model uint32) error
	// Exit ends all that is left.
	Exit()
}

// Server is the way to the server.
type Server struct {
	guest   *guest.Guest
	library Library
}

// InlineLimit is how many bytes of a tensor travel in a frame.
const InlineLimit = segment.DefaultInlineLimit

// Connect takes over the inherited channels.
func Connect() (*Server, error) {
	s := &Server{}
	var err error
	if s.guest, err = guest.Connect(s); err != nil {
		return nil, err
	}
	return s, nil
}

// Near is what a worker in the process of the server shares with it.
type Near = near.Near

// Over is Connect over other channels, for a worker in the process of the server.
func Over(control, descriptors *os.File, beside *Near) (*Server, error) {
	s := &Server{}
	var err error
	if s.guest, err = guest.NewServing(control, descriptors, s); err != nil {
		return nil, err
	}
	s.guest.Beside(beside)
	return s, nil
}

// Watch has the functions called with each piece of memory that outputs or inputs
// lie in. It comes before Serve.
func (s *Server) Watch(outputs, inputs func([]byte)) { s.guest.Watch(outputs, inputs) }

// Allocate returns memory for an output of so many bytes.
func (s *Server) Allocate(size int) (*Block, error) { return s.guest.Allocate(size, InlineLimit) }

// Give makes a block for an output of memory that who sent a request has given; see
// Request.SentBy. It takes over the reference.
func (s *Server) Give(b *tensor.Buffer) *Block { return s.guest.Give(b) }

// Levels of Server.Log.
const (
	LogInfo    = wire.LogInfo
	LogWarn    = wire.LogWarn
	LogError   = wire.LogError
	LogVerbose = wire.LogVerbose
)

// Log sends a record to the server's log. Any goroutine may call it.
func (s *Server) Log(level uint8, file string, line int, message string) error {
	return s.guest.Log(level, file, line, message)
}

// Serve works until the server says that it is enough, or is gone. It returns the
// exit status.
func (s *Server) Serve(l Library) int {
	s.library = l
	return s.guest.Run()
}

// Call implements guest.Handler.
func (s *Server) Call(kind wire.Kind, instance uint32, body json.RawMessage) (any, error) {
	switch kind {
	case wire.KindLoad:
		var l Load
		if err := json.Unmarshal(body, &l); err != nil {
			return nil, err
		}
		return s.library.Load(&l)
	case wire.KindInit:
		return nil, s.init(instance, body)
	case wire.KindUnload:
		var u Unload
		if len(body) > 0 {
			if err := json.Unmarshal(body, &u); err != nil {
				return nil, err
			}
		}
		if u.Model != nil {
			return nil, s.library.Unload(*u.Model)
		}
		s.guest.Detach(instance)
		return nil, s.library.End(instance)
	default:
		return nil, errors.New("worker protocol: neso-host does not know this call")
	}
}

// Queue implements guest.Concurrent: calls of one model wait for each other, those of
// different models do not, as one model may load another.
func (s *Server) Queue(kind wire.Kind, _ uint32, body json.RawMessage) (queue uint32, parallel bool) {
	var b struct {
		Model, Of uint32
		Parallel  bool
	}
	_ = json.Unmarshal(body, &b) // Call says what is wrong with it
	return b.Model | b.Of, kind == wire.KindInit && b.Parallel
}

func (s *Server) init(number uint32, body json.RawMessage) error {
	var i Init
	if err := json.Unmarshal(body, &i); err != nil {
		return err
	}
	execute, err := s.library.Init(number, &i)
	if err != nil {
		return err
	}
	return s.guest.Attach(number, guest.Served{
		Tables: wire.Tables{Inputs: i.Inputs, Outputs: i.Outputs}, Decoupled: i.Decoupled, Window: i.Window,
		Board: i.Board, InlineLimit: InlineLimit, Execute: execute,
	})
}

// Instance implements guest.Handler: all instances are served ones.
func (s *Server) Instance(uint32) (guest.Instance, bool) { return guest.Instance{}, false }

// Exit implements guest.Handler.
func (s *Server) Exit() { s.library.Exit() }

// Misuse is the error for what a library must not do.
func Misuse(library, format string, args ...any) *backend.Error {
	return backend.Errorf(backend.Internal, "backend '%s' broke its contract: %s", library, fmt.Sprintf(format, args...))
}
