package backend

import (
	"context"

	"github.com/nesoserve/neso/tensor"
)

// Driver names a kind of backend and opens it. The server calls Open when the
// first model that needs it is loaded, and again for a later model only after
// an Open that failed.
type Driver struct {
	// Name is the value of `backend` in a model's configuration.
	Name string
	// Open makes the backend ready. Settings come from --backend-config.
	Open func(ctx context.Context, host Host, settings Settings) (Backend, error)
	// Implements reports whether the driver also runs the models of a custom
	// backend. The backend lies in the folder of its name below --backend-directory;
	// runtime is the configuration's. nil means that it runs none.
	Implements func(name, directory, runtime string) bool
	// Finds reports whether the driver runs a model by a library that lies beside it
	// or in the backend directory. nil means that it does not.
	Finds func(l Lookup) bool
	// Explains says that Open only says why the backend is not there: a library of its
	// name comes first.
	Explains bool
	// Parameters are the names of a model's parameters that mean something to the
	// backend, Settings those of --backend-config; an entry that ends in * stands
	// for all names that begin so. The server warns of others. nil: of none.
	Parameters, Settings []string
	// OwnParameters says that models may have parameters that only they know: then
	// those are warned of that are much like one of Parameters.
	OwnParameters bool
	// CheckParameter returns what Load says of the value of one parameter of cfg, as
	// far as that can be told without the model's files; names are any of cfg's.
	// Inputs, outputs, instances and directories of cfg may be missing. nil: nothing.
	CheckParameter func(cfg *Config, name string) error
	// Files are those of Parameters that name files of the model: relative values
	// start at its directory. Paths are those that name any files, relative ones
	// from the server's working directory; of an entry that ends in * those count
	// that look like a path by their name or value. A configuration that comes with
	// a load request may name no file outside of the model.
	Files, Paths []string
	// OwnCode says what of a model brings code that the backend would run in the
	// server's process, such as a library of operators: the name of the field, or "".
	// Package backend/isolate gives such models a process of their own. nil: never.
	OwnCode func(cfg *Config) string
	// Isolated says that models run in a process of their own, by package
	// backend/isolate, unless their configuration says otherwise.
	Isolated bool
}

// Lookup is what a model says of the library that runs it.
type Lookup struct {
	// Backend and Runtime are those of the configuration, either may be empty.
	Backend, Runtime string
	// Folders may hold the library: the version's directory and the model's, as far as
	// they are known.
	Folders []string
	// Directory is --backend-directory.
	Directory string
	// BuiltIn says that another driver has the name.
	BuiltIn bool
}

// Settings is what the command line says to one backend.
type Settings struct {
	// Values holds --backend-config=<name>,<key>=<value>, global ones included.
	Values map[string]string
	// Directory is --backend-directory.
	Directory string
	// OptionPrefix is what messages put before the name of a setting of the server,
	// "--" where it is an option of the command; see Option.
	OptionPrefix string `json:",omitempty"`
	// Of returns the values for another backend, for a driver that runs those of
	// others; nil where there are none.
	Of func(backend string) map[string]string `json:"-"`
}

// Option returns what messages call a setting of the server, such as
// "backend-config".
func (s *Settings) Option(name string) string { return s.OptionPrefix + name }

// Backend loads models. Its methods are called concurrently.
type Backend interface {
	// Capabilities says what the backend can do; constant over its life.
	Capabilities() Capabilities
	// Complete returns the whole configuration as JSON after filling in what the
	// model itself knows (inputs, outputs, max_batch_size, scheduling choice,
	// decoupled), or nil when it has nothing to add. It is called once per load,
	// before Load, unless auto-completion is disabled; then only where
	// Capabilities.Alters says so.
	Complete(ctx context.Context, cfg Config) ([]byte, error)
	// Load makes one version of a model ready to create instances. ctx bounds the
	// load only.
	Load(ctx context.Context, cfg Config) (Model, error)
	// Close frees what the backend holds, after all its models are closed. It may be
	// called more than once. So may Close of a model and of an instance.
	Close() error
}

// Model is one loaded version. Its methods are called concurrently.
type Model interface {
	// Allocator gives memory for the inputs of requests to this model, or nil for
	// ordinary memory. A worker model returns shared memory, so that bytes read
	// from a socket are already where the worker sees them. A request that is still
	// arriving does not keep the model: the allocator may be asked after Close, which
	// it answers with an error, and what it gave before stays good until released.
	// Allocators are compared with ==.
	Allocator() tensor.Allocator
	// NewInstance makes one instance. ctx bounds its creation only.
	NewInstance(ctx context.Context, cfg InstanceConfig) (Instance, error)
	// Ready returns nil, or why the model cannot serve at present (for example,
	// its worker keeps crashing). It may ask the model, and takes some seconds at
	// most.
	Ready() error
	// Close frees the version, after its instances are closed.
	Close() error
}

// Instance executes batches. Execute is called concurrently up to
// Capabilities.Depth times, Close after the last Execute has returned.
type Instance interface {
	// Execute runs one batch and returns when the instance can take another. It
	// must answer every request through Request.Respond, with a final response
	// each; for decoupled models responses may come after Execute has returned.
	// When Execute returns an error, every request of the batch that has had no
	// final response is answered with it. With ErrNotBegun the batch goes back to
	// the queue instead.
	//
	// A batch with Batch.Ended need not be waited for: Execute may return ErrStarted
	// once the batch is on its way.
	//
	// Inputs are borrowed: they stay valid until the request's final response has
	// been given and Execute has returned, or Ended been called after ErrStarted.
	Execute(ctx context.Context, batch *Batch) error
	Close() error
}

// MemoryUser is an Instance that knows how much memory it has, or a Model that
// knows how much its instances share: the statistics have the sum.
type MemoryUser interface {
	// HostMemory returns how many bytes of the machine's memory that is at present, 0
	// where it is not known. It may be called at any time from the making of the
	// instance or model on, also while Execute runs and after Close.
	HostMemory() uint64
}

// BatchFormer is a Model that may have a say in which requests the dynamic batcher
// puts into one batch.
type BatchFormer interface {
	// FormsBatches reports whether it has. It is asked once, when its instances are there.
	FormsBatches() bool
	// Joins says how many of the requests, from the first one on, may form one batch: at
	// least 1. They stand in the order of the queue and fit into one batch as far as the
	// server knows; the model reads them while Joins runs, and answers none. It is called
	// by one goroutine at a time and takes a few seconds at most. With an error the server
	// forms the batch without it, and who returns the error has logged why.
	Joins(requests []*Request) (int, error)
}

// ProcessUser is an Instance that runs in a process of its own, or a Model whose
// instances share one.
type ProcessUser interface {
	// Process returns the number of the process, 0 for none at present. It may be
	// called as MemoryUser.HostMemory may.
	Process() int
}

// Capabilities tells the server how to use a backend. The zero value is the
// plainest one.
type Capabilities struct {
	// Depth is how many batches one instance runs at once: each is begun when
	// Execute is called. What may be sent to an instance before it can begin it is
	// InstanceState.Ahead. 0 means 1.
	Depth int
	// DepthFor is Depth where it depends on the model; it is asked once a load. nil:
	// Depth.
	DepthFor func(cfg *Config) int
	// Gather asks for Batch.Inputs: the inputs of all requests concatenated along
	// the batch axis.
	Gather bool
	// Completes says that Complete may return something.
	Completes bool
	// Alters says that Complete is called also where completion is turned off, with
	// Config.Strict: code of the model may change its configuration without being asked.
	Alters bool
	// Kind is the preferred instance kind for KIND_AUTO: "KIND_CPU", "KIND_GPU"
	// or "" for the server's choice.
	Kind string
	// Count is the preferred instance count where the configuration has none; 0
	// means 1.
	Count int
	// Preferred are the instance groups that the backend prefers, the best first, in
	// place of Kind and Count. PreferredFor is Preferred where it depends on the model;
	// it is asked once a load of a model whose configuration leaves groups or counts
	// open, before Complete. nil: Preferred.
	Preferred    []PreferredGroup
	PreferredFor func(ctx context.Context, cfg *Config) ([]PreferredGroup, error)
	// Serial has the instances of a model made, warmed up and closed one after the
	// other, in the order of Config.Instances, and not side by side.
	Serial bool
	// Parallel reports whether, in spite of Serial, the instances of a model are made and
	// warmed up side by side. It is asked when a model is loaded; nil: never.
	Parallel func(cfg *Config) bool
	// UsesGPU reports whether what the backend is made of can use an NVIDIA GPU:
	// if not, KIND_AUTO means the CPU. It is asked only where there are GPUs; nil
	// means that it can.
	UsesGPU func() bool
	// Quick reports whether Execute of a model neither waits nor computes for long:
	// it may then run where a program sends a request that is answered later. It is
	// asked once a load; nil: no.
	Quick func(cfg *Config) bool
	// Starts reports whether Execute of a model never waits for a batch with Batch.Ended:
	// it returns ErrStarted or an error. The server then may call Execute on the thread of
	// a program that sends a request and does not wait for the answer. Execute may copy
	// inputs there. Starts is called once a load; nil: no.
	Starts func(cfg *Config) bool
	// Lingers says that Execute may go on for long after its requests have been
	// answered: it must not run where a client waits for it.
	Lingers bool
	// LooseOutputs says that responses may lack outputs and have other shapes than
	// the configuration's: the backend has checked what its users want checked.
	LooseOutputs bool
	// ExtraOutputs says that responses may have outputs that the request has not asked for,
	// and that clients get those too.
	ExtraOutputs bool
	// StrictOutputs makes responses that lack outputs, or have other datatypes and
	// shapes than the configuration's, errors, whatever the server's option says.
	StrictOutputs bool
	// KeepsOrder says that Request.Inputs come in the client's order. Otherwise they
	// come in the configuration's.
	KeepsOrder bool
	// TakesDevice says whether the inputs of a model may lie on a GPU, see
	// tensor.DeviceMemory; it is asked once a load. nil: none.
	TakesDevice func(cfg *Config) bool
	// CopiesOutputs says that Respond is never handed the memory of an input.
	CopiesOutputs bool
}

// PreferredGroup is an instance group that a backend prefers. It is the one of a
// configuration without instance_group if it is the first that the machine has
// Devices for; groups of its Kind get its Count and Devices where they have none.
type PreferredGroup struct {
	Kind string // KIND_AUTO, KIND_CPU, KIND_GPU or KIND_MODEL
	// Count is the number of instances, on each device; 0 for the server's choice.
	Count int
	// Devices are numbers of GPUs; none for the server's choice.
	Devices []int
}

// Batch is what an instance executes: one or more requests. The value and its
// slices may be used again once Execute has returned and, for decoupled models,
// the final responses of all its requests have been given.
type Batch struct {
	Requests []*Request
	// Inputs holds, with Capabilities.Gather, every input once, in the order of
	// Request.Inputs, the requests' tensors concatenated along the batch axis in
	// request order. A ragged one
	// (IO.Ragged) has one dimension, of all its elements. After them come those of
	// Config.BatchInputs. Answer with Scatter, or request by request.
	Inputs []tensor.Tensor
	// Size is the sum of the requests' batch sizes, at least len(Requests).
	Size int
	// Scattered are the outputs that Scatter divides by the shape of an input, in
	// place of the batch dimension.
	Scattered []Scattered
	// InputEnd and OutputStart split the time of Execute into its phases. The
	// backend stores Now() into them; left at zero, all of it counts as inference.
	InputEnd, OutputStart int64
	// Reports are what the model itself says of its executions, where it does. They count
	// in the statistics in place of what the server measures. The backend leaves them alone
	// when Execute has returned.
	Reports []Report
	// Ran says, where Execute fails, that the model has run nevertheless: that
	// counts as an execution.
	Ran bool
	// Life says which life of the instance runs the batch, where it is a process
	// that is started anew when it dies: what it kept in memory is then gone. A
	// batch that a death has ended counts for the next life. 0 means that
	// instances do not die.
	Life uint64
	// If Ended is not nil, Execute may return ErrStarted at once. The backend then calls
	// Ended once, when the batch has ended, with what Execute would have returned. It holds
	// no lock, and may call it before Execute has returned. From that call on the batch is
	// not the backend's any more.
	Ended func(err error)
	// Progress, if not nil, follows the batch where the return of Execute does not
	// say enough. Its methods do not wait.
	Progress Progress
}

// Report is what a model says of the execution of a batch, or of a request.
type Report struct {
	// Failed says that the request counts as a failure. Times mean nothing then.
	Failed bool
	// Size is how large the batch was that was executed; of a request nothing.
	Size int
	// Times are when the execution and the computation in it began, and when the
	// computation and the execution were done: in the clock of Now, in order.
	Times [4]int64
}

// ResponseReport is what a model says of one response to a request.
type ResponseReport struct {
	// Index is its number among those that were reported for the request, from 0.
	Index int
	// Took is how long it took, in nanoseconds, and Output how much of that, at the end,
	// the writing of its outputs.
	Took, Output int64
	// Failed says that it is an error, Cancelled that it says that the request was
	// cancelled, Empty that it has no outputs: then Output means nothing.
	Failed, Cancelled, Empty bool
}

// Phases are how long inputs, inference and outputs took, in nanoseconds.
func (r *Report) Phases() (input, infer, output int64) {
	t := &r.Times
	return t[1] - t[0], t[2] - t[1], t[3] - t[2]
}

// Progress follows a batch on its way into a model.
type Progress interface {
	// Taken says that the batch has its place among what the instance is given: whatever
	// is executed from now on comes behind it. Workers call it.
	Taken()
	// Waits says that the batch was sent ahead: the instance has others to do first,
	// and has not begun it.
	Waits()
	// Begins says that the model has begun a batch for which Waits was called.
	Begins()
	// Recalled says that a batch that waits is not to be begun any more. It comes back,
	// with ErrNotBegun, or has been begun already: until one of the two is known, what is
	// executed from now on may come before it.
	Recalled()
	// Frees says that the instance can take another batch although Execute has not
	// returned: the model answers later.
	Frees()
}

// Config is a plain view of a model's configuration.
type Config struct {
	Name    string
	Version int64
	// Directory is the model's directory, VersionDirectory the one of the version.
	Directory, VersionDirectory string
	// Backend is the value of `backend` in the configuration: not the driver's own
	// name for a model of a custom backend, see Driver.Implements.
	Backend string
	// Filename is default_model_filename, relative to VersionDirectory.
	Filename string
	// JSON is the whole configuration in the form of the config endpoint.
	JSON         []byte
	MaxBatchSize int
	Inputs       []IO
	Outputs      []IO
	// BatchInputs are the tensors that the server makes from a batch (batch_input
	// of the configuration), one for each name. They come in Batch.Inputs, behind
	// those of the requests, only with Capabilities.Gather. Dims is their whole
	// shape: [-1], or [-1, rank]. Those of an optional input that the requests do
	// not have are missing too.
	BatchInputs []IO
	// Scattered are the outputs that a batch divides by the shape of an input
	// (batch_output); Batch.Scatter sees to it.
	Scattered  []Scattered
	Parameters map[string]string
	Decoupled  bool
	// Strict says that the server does not want configurations completed.
	Strict bool
	// Iterative says that the same request, with the same inputs, may be executed
	// several times (iterative_sequence).
	Iterative bool
	// Instances are all instances that will be created for this version.
	Instances []InstanceConfig
}

// IO describes one input or output of a model as the backend sees it: after
// reshape, without the batch dimension.
type IO struct {
	Name     string
	Datatype tensor.Datatype
	Dims     tensor.Shape // -1 for a dimension of any size
	Optional bool
	// Ragged inputs (allow_ragged_batch) may have another shape in each request of
	// a batch. In Batch.Inputs they have one dimension, of all elements.
	Ragged bool
}

// Scattered says how Scatter divides one output: each request gets as many
// elements as its shape has. That is Dims, with the request's batch size for
// the first one when the model batches, and in place of each -1 the dimension
// of the input Source at the same position.
type Scattered struct {
	Output, Source string
	// Dims are those of the output, without the batch dimension.
	Dims     tensor.Shape
	Batching bool
}

// InstanceConfig names one instance.
type InstanceConfig struct {
	// Name is as Triton gives it, for example "m_0_0".
	Name string
	// Kind is "KIND_CPU", "KIND_GPU" or "KIND_MODEL".
	Kind string
	// Device is the GPU number for KIND_GPU, else 0.
	Device int
	// Profiles are for TensorRT.
	Profiles []string
	// SecondaryDevices are what the configuration names beside the device.
	SecondaryDevices []SecondaryDevice `json:",omitempty"`
	// Passive says that the instance is made, and warmed up, but given no requests.
	// Such instances come last.
	Passive bool
	// HostPolicy says where the instance is to run; nil for anywhere.
	HostPolicy *HostPolicy `json:",omitempty"`
	// Report, if not nil, takes the state of the instance, from its making to its
	// Close each time that it changes. It may wait for what the server does about
	// it, so no lock that Execute needs is held around it. Without it Execute waits
	// where an instance that is Down would have returned ErrNotBegun.
	Report func(InstanceState) `json:"-"`
	// Restarted, if not nil, is called whenever a process of the instance is started in
	// place of one that died, also where that comes to nothing.
	Restarted func() `json:"-"`
	// Responded, if not nil, takes what the model's own code says of each response: the
	// statistics have that in place of what the server measures.
	Responded func(ResponseReport) `json:"-"`
	// GivenUp, if not nil, is closed when the server stops and waits for nothing any more:
	// what its Close then still waits for, such as a model's finalize, is cut short.
	GivenUp <-chan struct{} `json:"-"`
}

// SecondaryDevice is one that an instance uses beside its own.
type SecondaryDevice struct {
	Kind string // "KIND_NVDLA"
	ID   int64
}

// HostPolicy says on which processors an instance runs and where its memory lies.
type HostPolicy struct {
	Name string `json:"name"`
	// Processors are their numbers; empty for all.
	Processors []int `json:"processors,omitempty"`
	// Node is the NUMA node of its memory; nil for any.
	Node *int `json:"node,omitempty"`
	// Settings are all of the policy's, as they were given.
	Settings map[string]string `json:"settings,omitempty"`
}

// InstanceState is how an instance can be used at present.
type InstanceState struct {
	// Ahead is how many batches may be sent to it, beyond those that it runs, before
	// it has begun them. What it does not come to, because the one before takes long
	// or because it dies, Execute gives back with ErrNotBegun.
	Ahead int
	// Down says that it cannot begin anything now but soon will: its process is being
	// started anew. What is sent to it all the same comes back with ErrNotBegun.
	Down bool
	// Failing says that its process keeps dying, and is not there now: what is sent
	// to it is refused. It is given nothing while another instance is not failing.
	Failing bool
}
