package check

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/modelconfig/fault"
	"github.com/nesoserve/neso/internal/modelconfig/platform"
)

// validator collects the faults of one configuration. Checks come in Triton's order,
// so that the first fault is the one that Triton would report.
type validator struct {
	pb     *inferencepb.ModelConfig
	from   *fault.Source
	faults fault.List
}

// add reports a fault of a field. The text is Triton's, as in the reference.
func (v *validator) add(path, expected, found, format string, args ...any) {
	if len(v.faults) >= fault.Max {
		return
	}
	v.faults.Add(v.from.Fault(path, fmt.Sprintf(format, args...), expected, found))
}

// Config checks a normalized configuration and returns all faults. Inputs and
// outputs are checked when tensors is set; a backend may still have to complete
// them. load adds what Triton looks at only while it loads a version (labels,
// warm-up samples, initial states): clients see another status for those.
func Config(pb *inferencepb.ModelConfig, from *fault.Source, tensors, load bool) fault.List {
	v := &validator{pb: pb, from: from}
	v.backend()
	v.batching()
	if seq := pb.GetSequenceBatching(); seq != nil {
		v.sequence(seq)
	}
	switch {
	case pb.GetEnsembleScheduling() != nil:
		v.ensemble(pb.GetEnsembleScheduling())
	case pb.Platform == platform.Ensemble:
		v.add("ensemble_scheduling", "ensemble_scheduling { ... }", "none",
			"ensemble scheduling must be set for ensemble %s whose platform is ensemble", pb.Name)
	}
	v.cache()
	v.metrics()
	if tensors {
		v.io()
		v.batchIO()
	}
	if load {
		v.versionPolicy()
		v.labels()
		v.states()
		v.warmup()
	}
	return v.faults
}

func (v *validator) backend() {
	pb := v.pb
	if pb.Name == "" {
		v.add("name", "the name of the model's directory", "nothing", "model configuration must specify 'name'")
	}
	switch {
	case v.from.Unread(platform.Fields...):
	case pb.Backend == "" && pb.Platform != platform.Ensemble:
		f := v.from.Fault("platform", fmt.Sprintf("unexpected platform type '%s' for %s", pb.Platform, pb.Name),
			"a known platform or a 'backend'", fault.Quote(pb.Platform))
		f.Hint = platform.Suggest(pb.Platform)
		v.faults.Add(f)
	case pb.Backend != "" && pb.Platform == platform.Ensemble:
		v.add("backend", "no backend", fault.Quote(pb.Backend),
			"Ensemble model '%s' must have platform type 'ensemble' and empty backend type", pb.Name)
	default:
		v.pair()
	}
	if pb.MaxBatchSize < 0 {
		v.add("max_batch_size", "0 or more", strconv.Itoa(int(pb.MaxBatchSize)),
			"'max_batch_size' must be non-negative value for %s", pb.Name)
	}
}

// versionPolicy refuses policies that serve nothing whatever there is.
func (v *validator) versionPolicy() {
	if v.from.UnreadIn("version_policy") {
		return
	}
	const text = "at least one version must be available under the version policy of model '%s'"
	if latest := v.pb.GetVersionPolicy().GetLatest(); latest != nil && latest.NumVersions == 0 {
		v.add("version_policy.latest.num_versions", "at least 1", "0", text, v.pb.Name)
	}
	if specific := v.pb.GetVersionPolicy().GetSpecific(); specific != nil && len(specific.Versions) == 0 {
		v.add("version_policy.specific.versions", "at least one version", "none", text, v.pb.Name)
	}
}

// pair checks that one of the framework backends has a platform of its own.
func (v *validator) pair() {
	kind := platform.Kind{Backend: v.pb.Backend, Platform: v.pb.Platform, Filename: v.pb.DefaultModelFilename}
	if platforms := kind.Expected(); len(platforms) > 0 {
		v.add("platform", "one of "+joinQuoted(platforms), fault.Quote(v.pb.Platform),
			"unexpected 'platform' and 'backend' pair, got:%s, %s", v.pb.Platform, v.pb.Backend)
	}
}

func sortedLevels(policies map[uint64]*inferencepb.ModelQueuePolicy) []uint64 {
	return slices.Sorted(maps.Keys(policies))
}

func joinQuoted(words []string) string {
	var text strings.Builder
	for i, w := range words {
		if i > 0 {
			text.WriteString(", ")
		}
		text.WriteString(strconv.Quote(w))
	}
	return text.String()
}

func (v *validator) batching() {
	dyn := v.pb.GetDynamicBatching()
	if dyn == nil {
		return
	}
	name := v.pb.Name
	v.preferred("dynamic_batching", "dynamic batching preferred size", dyn.PreferredBatchSize)
	if n := dyn.PriorityLevels; n != 0 {
		want := fmt.Sprintf("1 to %d", n)
		if l := dyn.DefaultPriorityLevel; l == 0 || l > n {
			v.add("dynamic_batching.default_priority_level", want, strconv.FormatUint(l, 10),
				"default priority level must be in range [1, %d] for %s", n, name)
		}
		for _, l := range sortedLevels(dyn.PriorityQueuePolicy) {
			if l == 0 || l > n {
				v.add(fault.Entry("dynamic_batching.priority_queue_policy", strconv.FormatUint(l, 10)), want, strconv.FormatUint(l, 10),
					"priority queue policy must have priority level in range [1, %d] for %s", n, name)
			}
		}
	}
	if !dyn.PreserveOrdering {
		return
	}
	if dyn.PriorityLevels > 1 {
		v.add("dynamic_batching.priority_levels", "at most 1", strconv.FormatUint(dyn.PriorityLevels, 10),
			"Only one priority level is allowed when 'preserve_ordering' is true for %s", name)
	}
	delays := func(path string, p *inferencepb.ModelQueuePolicy) {
		if p.GetDefaultTimeoutMicroseconds() != 0 && p.GetTimeoutAction() == inferencepb.ModelQueuePolicy_DELAY {
			v.add(path+".timeout_action", "REJECT", "DELAY",
				"Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for %s", name)
		}
	}
	delays("dynamic_batching.default_queue_policy", dyn.DefaultQueuePolicy)
	for _, l := range sortedLevels(dyn.PriorityQueuePolicy) {
		delays(fault.Entry("dynamic_batching.priority_queue_policy", strconv.FormatUint(l, 10)), dyn.PriorityQueuePolicy[l])
	}
}

// preferred checks the preferred batch sizes of a batcher.
func (v *validator) preferred(path, what string, sizes []int32) {
	if v.from.Unread("max_batch_size") {
		return
	}
	for i, size := range sizes {
		at := path + ".preferred_batch_size[" + strconv.Itoa(i) + "]"
		want := fmt.Sprintf("1 to %d", v.pb.MaxBatchSize)
		if v.pb.MaxBatchSize < 1 {
			want = "none while max_batch_size is " + strconv.Itoa(int(v.pb.MaxBatchSize))
		}
		switch {
		case size <= 0:
			v.add(at, want, strconv.Itoa(int(size)), "%s must be positive for %s", what, v.pb.Name)
		case size > v.pb.MaxBatchSize:
			v.add(at, want, strconv.Itoa(int(size)), "%s must be <= max batch size for %s", what, v.pb.Name)
		}
	}
}

func (v *validator) cache() {
	if !v.pb.GetResponseCache().GetEnable() {
		return
	}
	if v.pb.GetSequenceBatching() != nil {
		v.add("response_cache.enable", "false with sequence_batching", "true",
			"Response Cache does not currently support model %s with sequence batching scheduler. "+
				"Please disable the response cache.", v.pb.Name)
	}
	if v.pb.GetModelTransactionPolicy().GetDecoupled() {
		v.add("response_cache.enable", "false with decoupled: true", "true",
			"Response Cache does not currently support model %s with 'decoupled' transaction policy. "+
				"Please disable the response cache.", v.pb.Name)
	}
}

func (v *validator) metrics() {
	for i, m := range v.pb.GetModelMetrics().GetMetricControl() {
		path := "model_metrics.metric_control[" + strconv.Itoa(i) + "]"
		switch {
		case m.MetricIdentifier == nil:
			v.add(path+".metric_identifier", "metric_identifier { family: ... }", "none", "metric control must specify 'metric_identifier'")
		case m.MetricIdentifier.Family == "":
			v.add(path+".metric_identifier.family", "the name of a metric", "nothing", "metric identifier must specify non-empty 'family'")
		}
		switch {
		case m.GetHistogramOptions() == nil:
			v.add(path+".histogram_options", "histogram_options { buckets: ... }", "none",
				"metric control must specify 'histogram_options'")
		case len(m.GetHistogramOptions().Buckets) == 0:
			v.add(path+".histogram_options.buckets", "at least one bucket", "none", "histogram options must specify non-empty 'buckets'")
		}
	}
}

// warmup checks the samples that are going to run; one without a batch size
// is skipped.
func (v *validator) warmup() {
	for i, w := range v.pb.ModelWarmup {
		if w.BatchSize == 0 {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(w.Inputs)) {
			in := w.Inputs[name]
			at := fault.Entry("model_warmup["+strconv.Itoa(i)+"].inputs", name)
			for j, d := range in.GetDims() {
				if d < 0 {
					v.add(at+".dims["+strconv.Itoa(j)+"]", "a fixed size", strconv.FormatInt(d, 10),
						"warmup setting expects all variable-size dimensions are specified for input '%s'", name)
				}
			}
			switch data := in.GetInputDataType().(type) {
			case nil:
				v.add(at, "zero_data, random_data or input_data_file", "none",
					"warmup setting expects input '%s' to have input_data_type set", name)
			case *inferencepb.ModelWarmup_Input_InputDataFile:
				if !Local(data.InputDataFile) {
					v.add(at+".input_data_file", "a path inside the warmup directory", fault.Quote(data.InputDataFile),
						"warmup file '%s' for input '%s' in model '%s' is outside model directory", data.InputDataFile, name, v.pb.Name)
				}
			}
		}
	}
}
