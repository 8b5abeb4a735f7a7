package modelconfig

import (
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/tensor"
)

// Config is one model's configuration after completion, normalization and
// validation: a plain, immutable view for the rest of the server. Whoever
// holds one may read it without a lock and must not change it.
type Config struct {
	Name     string
	Platform string
	Backend  string
	Runtime  string
	// Filename is the model's file: default_model_filename, or what
	// cc_model_filenames has for the GPUs of the instances.
	Filename     string
	MaxBatchSize int
	Inputs       []Input
	Outputs      []Output
	BatchInputs  []BatchInput
	BatchOutputs []BatchOutput
	Versions     VersionPolicy
	Groups       []InstanceGroup // passive ones last
	// At most one of Dynamic, Sequence and Ensemble is set; none of them means
	// the default scheduler.
	Dynamic       *DynamicBatching
	Sequence      *SequenceBatching
	Ensemble      *Ensemble
	Decoupled     bool
	ResponseCache bool
	Warmup        []Warmup
	Parameters    map[string]string
	MetricTags    map[string]string
	EagerBatching bool
	// HistogramBuckets, of which FirstResponseFamily has an effect, overrides the buckets of metric families, by family name.
	HistogramBuckets map[string][]float64

	json []byte
	pb   *inferencepb.ModelConfig
}

// Input is one input of the model. Dims have no batch dimension.
type Input struct {
	Name     string
	Datatype tensor.Datatype
	Dims     tensor.Shape
	// Reshape is what the backend sees instead of Dims, when HasReshape is set.
	Reshape     tensor.Shape
	HasReshape  bool
	Format      string // "FORMAT_NONE", "FORMAT_NHWC", "FORMAT_NCHW"
	Optional    bool
	AllowRagged bool
	ShapeTensor bool
	NonLinear   bool
}

// Output is one output of the model. Dims have no batch dimension.
type Output struct {
	Name          string
	Datatype      tensor.Datatype
	Dims          tensor.Shape
	Reshape       tensor.Shape
	HasReshape    bool
	LabelFilename string
	ShapeTensor   bool
	NonLinear     bool
}

// BatchInput is a tensor that the server makes from the batch, for ragged
// batching.
type BatchInput struct {
	Kind        string // for example "BATCH_ELEMENT_COUNT"
	Targets     []string
	Datatype    tensor.Datatype
	SourceInput []string
}

// BatchOutput says how the server scatters an output over the batch.
type BatchOutput struct {
	Kind        string
	Targets     []string
	SourceInput []string
}

// VersionPolicy says which versions of a model are served: exactly one field
// is set.
type VersionPolicy struct {
	Latest   int // the highest n; 0 when another policy holds
	All      bool
	Specific []int64
}

// InstanceGroup is a normalized instance group: Name is set, Kind is not
// KIND_AUTO, Count is at least 1.
type InstanceGroup struct {
	Name                string
	Kind                string // "KIND_CPU", "KIND_GPU", "KIND_MODEL"
	Count               int
	GPUs                []int
	Profiles            []string
	SecondaryDevices    []backend.SecondaryDevice
	Passive             bool
	HostPolicy          string
	Resources           []Resource
	RateLimiterPriority int // at least 1
}

// Resource is what an instance needs from the rate limiter to run.
type Resource struct {
	Name   string
	Global bool
	Count  int
}

// TimeoutAction says what happens to a request whose time in the queue is up.
type TimeoutAction uint8

// The timeout actions.
const (
	Reject TimeoutAction = iota
	Delay
)

// QueuePolicy bounds one queue of the dynamic batcher.
type QueuePolicy struct {
	Action               TimeoutAction
	DefaultTimeout       time.Duration // 0 means none
	AllowTimeoutOverride bool
	MaxQueueSize         int // requests; 0 means no bound of its own
}

// DynamicBatching configures the dynamic batcher.
type DynamicBatching struct {
	PreferredBatchSizes  []int // ascending, never empty when the model batches
	MaxQueueDelay        time.Duration
	PreserveOrdering     bool
	PriorityLevels       uint64
	DefaultPriorityLevel uint64
	DefaultPolicy        QueuePolicy
	// Policies holds the levels that differ from DefaultPolicy.
	Policies map[uint64]QueuePolicy
}

// SequenceBatching configures the sequence batcher.
type SequenceBatching struct {
	MaxIdle   time.Duration
	Controls  []SequenceControl
	Direct    *DirectStrategy // set unless Oldest is
	Oldest    *OldestStrategy
	States    []SequenceState
	Iterative bool
}

// SequenceControl is one control tensor kind carried by an input.
type SequenceControl struct {
	Input    string
	Kind     string // "CONTROL_SEQUENCE_START", ...
	Datatype tensor.Datatype
	// False and True are the values as little-endian bytes of Datatype; empty for
	// CONTROL_SEQUENCE_CORRID.
	False, True []byte
}

// DirectStrategy gives each sequence a batch slot of its own.
type DirectStrategy struct {
	MaxQueueDelay          time.Duration
	MinimumSlotUtilization float32
}

// OldestStrategy batches the oldest sequences dynamically.
type OldestStrategy struct {
	MaxCandidateSequences int
	PreferredBatchSizes   []int
	MaxQueueDelay         time.Duration
	PreserveOrdering      bool
}

// SequenceState is a tensor kept from request to request of a sequence.
type SequenceState struct {
	Input, Output string
	Datatype      tensor.Datatype
	Dims          tensor.Shape
	Initial       *InitialState
	SameBuffer    bool
	Growable      bool
}

// InitialState is the state of a sequence's first request.
type InitialState struct {
	Name     string
	Datatype tensor.Datatype
	Dims     tensor.Shape
	DataFile string // in <model>/initial_state; empty means zeros
}

// Ensemble is a graph of models.
type Ensemble struct {
	Steps       []Step
	MaxInflight int // 0 means no bound of its own
}

// Step is one model in an ensemble.
type Step struct {
	Model     string
	Version   int64             // -1 for the latest
	InputMap  map[string]string // model input to ensemble tensor
	OutputMap map[string]string // model output to ensemble tensor
}

// Warmup is one warm-up sample.
type Warmup struct {
	Name      string
	BatchSize int // 0: the sample is skipped
	Count     int // at least 1
	Inputs    map[string]WarmupInput
}

// WarmupInput is the data of one input of a warm-up sample.
type WarmupInput struct {
	Datatype tensor.Datatype
	Dims     tensor.Shape
	// Source is "zero", "random" or "file".
	Source string
	File   string // in <model>/warmup
}

// Agent is a repository agent with its parameters.
type Agent struct {
	Name       string
	Parameters map[string]string
}

// Input returns the input with the given name, or nil.
func (c *Config) Input(name string) *Input {
	for i := range c.Inputs {
		if c.Inputs[i].Name == name {
			return &c.Inputs[i]
		}
	}
	return nil
}

// Output returns the output with the given name, or nil.
func (c *Config) Output(name string) *Output {
	for i := range c.Outputs {
		if c.Outputs[i].Name == name {
			return &c.Outputs[i]
		}
	}
	return nil
}

// JSON returns the configuration in the form of the config endpoint
// (reference: snake_case names, all singular primitives, 64-bit numbers as
// numbers where Triton prints them so).
func (c *Config) JSON() []byte { return c.json }
