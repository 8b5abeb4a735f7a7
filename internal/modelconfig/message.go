package modelconfig

import (
	"cmp"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/modelconfig/encode"
	"github.com/nesoserve/neso/tensor"
)

// WithDecoupled returns the configuration with another transaction policy: an
// ensemble is decoupled when a model on its path is.
func (c *Config) WithDecoupled(decoupled bool) *Config {
	if c.Decoupled == decoupled {
		return c
	}
	pb := proto.Clone(c.pb).(*inferencepb.ModelConfig)
	pb.ModelTransactionPolicy = &inferencepb.ModelTransactionPolicy{Decoupled: decoupled}
	return Of(pb)
}

// Of makes a Config of a message, which it keeps. It accepts what checks would refuse.
func Of(pb *inferencepb.ModelConfig) *Config {
	c := &Config{
		Name:          pb.Name,
		Platform:      pb.Platform,
		Backend:       pb.Backend,
		Runtime:       pb.Runtime,
		Filename:      pb.DefaultModelFilename,
		MaxBatchSize:  int(pb.MaxBatchSize),
		Versions:      PolicyOf(pb.VersionPolicy),
		Decoupled:     pb.GetModelTransactionPolicy().GetDecoupled(),
		ResponseCache: pb.GetResponseCache().GetEnable(),
		Parameters:    make(map[string]string, len(pb.Parameters)),
		MetricTags:    maps.Clone(pb.MetricTags),
		EagerBatching: pb.GetOptimization().GetEagerBatching(),
		Dynamic:       dynamicBatching(pb.GetDynamicBatching()),
		Sequence:      sequenceBatching(pb.GetSequenceBatching()),
		Ensemble:      ensemble(pb.GetEnsembleScheduling()),
		json:          encode.AppendJSON(nil, pb.ProtoReflect()),
		pb:            pb,
	}
	for _, in := range pb.Input {
		c.Inputs = append(c.Inputs, Input{
			Name: in.Name, Datatype: datatype(in.DataType), Dims: in.Dims,
			Reshape: in.GetReshape().GetShape(), HasReshape: in.Reshape != nil,
			Format: in.Format.String(), Optional: in.Optional, AllowRagged: in.AllowRaggedBatch,
			ShapeTensor: in.IsShapeTensor, NonLinear: in.IsNonLinearFormatIo,
		})
	}
	for _, out := range pb.Output {
		c.Outputs = append(c.Outputs, Output{
			Name: out.Name, Datatype: datatype(out.DataType), Dims: out.Dims,
			Reshape: out.GetReshape().GetShape(), HasReshape: out.Reshape != nil,
			LabelFilename: out.LabelFilename, ShapeTensor: out.IsShapeTensor, NonLinear: out.IsNonLinearFormatIo,
		})
	}
	for _, b := range pb.BatchInput {
		c.BatchInputs = append(c.BatchInputs, BatchInput{
			Kind: b.Kind.String(), Targets: b.TargetName, Datatype: datatype(b.DataType), SourceInput: b.SourceInput,
		})
	}
	for _, b := range pb.BatchOutput {
		c.BatchOutputs = append(c.BatchOutputs, BatchOutput{Kind: b.Kind.String(), Targets: b.TargetName, SourceInput: b.SourceInput})
	}
	for _, g := range pb.InstanceGroup {
		c.Groups = append(c.Groups, instanceGroup(g))
	}
	// Passive instances come last, so that those that take requests are the first.
	slices.SortStableFunc(c.Groups, func(a, b InstanceGroup) int { return cmp.Compare(order(a.Passive), order(b.Passive)) })
	for _, w := range pb.ModelWarmup {
		c.Warmup = append(c.Warmup, warmup(w))
	}
	for key, p := range pb.Parameters {
		c.Parameters[key] = p.GetStringValue()
	}
	for _, m := range pb.GetModelMetrics().GetMetricControl() {
		if c.HistogramBuckets == nil {
			c.HistogramBuckets = map[string][]float64{}
		}
		c.HistogramBuckets[m.GetMetricIdentifier().GetFamily()] = m.GetHistogramOptions().GetBuckets()
	}
	return c
}

func order(last bool) int {
	if last {
		return 1
	}
	return 0
}

// FirstResponseFamily is the metric family whose buckets a configuration may choose.
const FirstResponseFamily = "nv_inference_first_response_histogram_ms"

func datatype(t inferencepb.DataType) tensor.Datatype {
	if d := tensor.Datatype(min(max(t, 0), math.MaxUint8)); d.Valid() {
		return d
	}
	return tensor.Invalid
}

// PolicyOf reads a version policy; one without a choice means all.
func PolicyOf(p *inferencepb.ModelVersionPolicy) VersionPolicy {
	switch p := p.GetPolicyChoice().(type) {
	case *inferencepb.ModelVersionPolicy_Latest_:
		return VersionPolicy{Latest: int(p.Latest.GetNumVersions())}
	case *inferencepb.ModelVersionPolicy_Specific_:
		return VersionPolicy{Specific: p.Specific.GetVersions()}
	default:
		return VersionPolicy{All: true}
	}
}

// microseconds is a duration as long as can be represented.
func microseconds(n uint64) time.Duration {
	return time.Duration(min(n, math.MaxInt64/uint64(time.Microsecond))) * time.Microsecond
}

// batchSizes are ascending and without repetition.
func batchSizes(sizes []int32) []int {
	var out []int
	for _, s := range sizes {
		out = append(out, int(s))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func dynamicBatching(pb *inferencepb.ModelDynamicBatching) *DynamicBatching {
	if pb == nil {
		return nil
	}
	dyn := &DynamicBatching{
		PreferredBatchSizes:  batchSizes(pb.PreferredBatchSize),
		MaxQueueDelay:        microseconds(pb.MaxQueueDelayMicroseconds),
		PreserveOrdering:     pb.PreserveOrdering,
		PriorityLevels:       pb.PriorityLevels,
		DefaultPriorityLevel: pb.DefaultPriorityLevel,
		DefaultPolicy:        queuePolicy(pb.DefaultQueuePolicy),
		Policies:             make(map[uint64]QueuePolicy, len(pb.PriorityQueuePolicy)),
	}
	for level, p := range pb.PriorityQueuePolicy {
		dyn.Policies[level] = queuePolicy(p)
	}
	return dyn
}

func queuePolicy(pb *inferencepb.ModelQueuePolicy) QueuePolicy {
	p := QueuePolicy{
		DefaultTimeout:       microseconds(pb.GetDefaultTimeoutMicroseconds()),
		AllowTimeoutOverride: pb.GetAllowTimeoutOverride(),
		MaxQueueSize:         int(pb.GetMaxQueueSize()),
	}
	if pb.GetTimeoutAction() == inferencepb.ModelQueuePolicy_DELAY {
		p.Action = Delay
	}
	return p
}

func sequenceBatching(pb *inferencepb.ModelSequenceBatching) *SequenceBatching {
	if pb == nil {
		return nil
	}
	seq := &SequenceBatching{MaxIdle: microseconds(pb.MaxSequenceIdleMicroseconds), Iterative: pb.IterativeSequence}
	for _, in := range pb.ControlInput {
		for _, control := range in.Control {
			seq.Controls = append(seq.Controls, sequenceControl(in.Name, control))
		}
	}
	if oldest := pb.GetOldest(); oldest != nil {
		seq.Oldest = &OldestStrategy{
			MaxCandidateSequences: int(oldest.MaxCandidateSequences),
			PreferredBatchSizes:   batchSizes(oldest.PreferredBatchSize),
			MaxQueueDelay:         microseconds(oldest.MaxQueueDelayMicroseconds),
			PreserveOrdering:      oldest.PreserveOrdering,
		}
	} else {
		seq.Direct = &DirectStrategy{
			MaxQueueDelay:          microseconds(pb.GetDirect().GetMaxQueueDelayMicroseconds()),
			MinimumSlotUtilization: pb.GetDirect().GetMinimumSlotUtilization(),
		}
	}
	for _, s := range pb.State {
		state := SequenceState{
			Input: s.InputName, Output: s.OutputName, Datatype: datatype(s.DataType), Dims: s.Dims,
			SameBuffer: s.UseSameBufferForInputOutput, Growable: s.UseGrowableMemory,
		}
		for _, init := range s.InitialState {
			state.Initial = &InitialState{Name: init.Name, Datatype: datatype(init.DataType), Dims: init.Dims, DataFile: init.GetDataFile()}
		}
		seq.States = append(seq.States, state)
	}
	return seq
}

func sequenceControl(input string, pb *inferencepb.ModelSequenceBatching_Control) SequenceControl {
	c := SequenceControl{Input: input, Kind: pb.Kind.String()}
	switch {
	case len(pb.Int32FalseTrue) == 2:
		c.Datatype = tensor.Int32
		c.False = binary.LittleEndian.AppendUint32(nil, uint32(pb.Int32FalseTrue[0]))
		c.True = binary.LittleEndian.AppendUint32(nil, uint32(pb.Int32FalseTrue[1]))
	case len(pb.Fp32FalseTrue) == 2:
		c.Datatype = tensor.FP32
		c.False = binary.LittleEndian.AppendUint32(nil, math.Float32bits(pb.Fp32FalseTrue[0]))
		c.True = binary.LittleEndian.AppendUint32(nil, math.Float32bits(pb.Fp32FalseTrue[1]))
	case len(pb.BoolFalseTrue) == 2:
		c.Datatype = tensor.Bool
		c.False, c.True = boolByte(pb.BoolFalseTrue[0]), boolByte(pb.BoolFalseTrue[1])
	default:
		c.Datatype = datatype(pb.DataType)
	}
	return c
}

func boolByte(b bool) []byte {
	if b {
		return []byte{1}
	}
	return []byte{0}
}

func ensemble(pb *inferencepb.ModelEnsembling) *Ensemble {
	if pb == nil {
		return nil
	}
	e := &Ensemble{MaxInflight: int(pb.MaxInflightRequests)}
	for _, s := range pb.Step {
		e.Steps = append(e.Steps, Step{
			Model:   strings.TrimPrefix(s.ModelNamespace+"::"+s.ModelName, "::"),
			Version: s.ModelVersion, InputMap: s.InputMap, OutputMap: s.OutputMap,
		})
	}
	return e
}

func instanceGroup(pb *inferencepb.ModelInstanceGroup) InstanceGroup {
	g := InstanceGroup{
		Name: pb.Name, Kind: pb.Kind.String(), Count: int(pb.Count), Profiles: pb.Profile, Passive: pb.Passive,
		HostPolicy: pb.HostPolicy, RateLimiterPriority: max(1, int(pb.GetRateLimiter().GetPriority())),
	}
	for _, s := range pb.SecondaryDevices {
		g.SecondaryDevices = append(g.SecondaryDevices, backend.SecondaryDevice{Kind: s.Kind.String(), ID: s.DeviceId})
	}
	for _, id := range pb.Gpus {
		g.GPUs = append(g.GPUs, int(id))
	}
	for _, r := range pb.GetRateLimiter().GetResources() {
		g.Resources = append(g.Resources, Resource{Name: r.Name, Global: r.Global, Count: int(r.Count)})
	}
	return g
}

func warmup(pb *inferencepb.ModelWarmup) Warmup {
	w := Warmup{
		Name: pb.Name, BatchSize: int(pb.BatchSize), Count: max(1, int(pb.Count)), Inputs: make(map[string]WarmupInput, len(pb.Inputs)),
	}
	for name, in := range pb.Inputs {
		sample := WarmupInput{Datatype: datatype(in.DataType), Dims: in.Dims, Source: "zero"}
		switch data := in.InputDataType.(type) {
		case *inferencepb.ModelWarmup_Input_RandomData:
			sample.Source = "random"
		case *inferencepb.ModelWarmup_Input_InputDataFile:
			sample.Source, sample.File = "file", data.InputDataFile
		}
		w.Inputs[name] = sample
	}
	return w
}
