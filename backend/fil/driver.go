package fil

import (
	"context"
	"strconv"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/completion"
	"github.com/nesoserve/neso/backend/internal/library"
	"github.com/nesoserve/neso/backend/internal/worker/process"
)

// Options configure the backend; the zero value uses a library of the backend
// directory, the environment or the system.
type Options struct {
	// Interpreter returns the Python interpreter whose packages are searched for
	// the library, and which reads pickles; may be nil. Its error calls the
	// setting option.
	Interpreter func(option string) (string, error)
	// WorkerUser and WorkerEnvironment are those of package backend/python, for the
	// process that reads pickles.
	WorkerUser        string
	WorkerBinary      string
	WorkerEnvironment []string
	// Environment is the server's environment, of which workers get a part; nil is that
	// of this process.
	Environment []string
}

// New returns the driver.
func New(o Options) backend.Driver {
	return backend.Driver{
		Name: Spec.Backend, Parameters: parameters, Settings: []string{completion.MaxBatchSize, settingPickle},
		Files: []string{Spec.Parameter}, OwnCode: Spec.OfModel, CheckParameter: checkParameter,
		Open: func(_ context.Context, host backend.Host, s backend.Settings) (backend.Backend, error) {
			set, err := parseSettings(s)
			if err != nil {
				return nil, err
			}
			user, err := process.FindUser(o.WorkerUser, s.Option("worker-user"))
			if err != nil {
				return nil, err
			}
			return &driver{options: o, host: host, server: s, settings: set, user: user}, nil
		},
	}
}

// driver is the open backend.
type driver struct {
	options  Options
	host     backend.Host
	server   backend.Settings
	settings settings
	user     *process.User // of the process that reads pickles; nil for the server's

	libraries library.Opened[*api]
	ready     completion.Ready[*forest]
}

const settingPickle = "allow-pickle"

// settings are the --backend-config=fil,... values.
type settings struct {
	maxBatchSize int  // of models that do not say how much
	allowPickle  bool // read files that run code
}

// defaultMaxBatchSize is large: a row costs a few hundred bytes and some
// microseconds.
const defaultMaxBatchSize = 32768

func parseSettings(s backend.Settings) (settings, error) {
	set := settings{maxBatchSize: defaultMaxBatchSize}
	if err := completion.Number(Spec.Backend, s, completion.MaxBatchSize, &set.maxBatchSize); err != nil {
		return set, err
	}
	if text, ok := s.Values[settingPickle]; ok {
		v, err := strconv.ParseBool(text)
		if err != nil {
			return set, backend.Errorf(backend.InvalidArg, s.Option("backend-config")+"=fil,allow-pickle=%s: expected true or false", text)
		}
		set.allowPickle = v
	}
	return set, nil
}

// Capabilities: an instance runs one batch at a time, and wants it in one
// piece.
func (d *driver) Capabilities() backend.Capabilities {
	return backend.Capabilities{Gather: true, Completes: true, CopiesOutputs: true, Kind: "KIND_CPU", UsesGPU: func() bool { return false }}
}

// Close frees what no model uses any more; a library stays open.
func (d *driver) Close() error {
	d.ready.Close()
	return nil
}
