package jsonwire

import (
	"strconv"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/stats"
	"github.com/nesoserve/neso/tensor"
)

func appendInt(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }

func appendUint(b []byte, n uint64) []byte { return strconv.AppendUint(b, n, 10) }

func appendMember(b []byte, member string, v bool) []byte {
	return strconv.AppendBool(append(b, member...), v)
}

// AppendServerMetadata appends the server's metadata.
func AppendServerMetadata(b []byte, name, version string, extensions []string) []byte {
	b = appendText(append(b, `{"name":`...), name)
	b = appendText(append(b, `,"version":`...), version)
	b = append(b, `,"extensions":[`...)
	for i, e := range extensions {
		b = appendText(comma(b, i), e)
	}
	return append(b, `]}`...)
}

func comma(b []byte, i int) []byte {
	if i > 0 {
		return append(b, ',')
	}
	return b
}

// AppendModelMetadata appends a model's metadata.
func AppendModelMetadata(b []byte, cfg *modelconfig.Config, versions []int64) []byte {
	b = appendText(append(b, `{"name":`...), cfg.Name)
	b = append(b, `,"versions":[`...)
	for i, v := range versions {
		b = append(comma(b, i), '"')
		b = append(appendInt(b, v), '"')
	}
	b = appendText(append(b, `],"platform":`...), kserve.Platform(cfg))
	b = append(b, `,"inputs":[`...)
	for i := range cfg.Inputs {
		in := &cfg.Inputs[i]
		b = appendTensorMetadata(comma(b, i), in.Name, in.Datatype, kserve.MetadataShape(cfg, in.Dims))
	}
	b = append(b, `],"outputs":[`...)
	for i := range cfg.Outputs {
		out := &cfg.Outputs[i]
		b = appendTensorMetadata(comma(b, i), out.Name, out.Datatype, kserve.MetadataShape(cfg, out.Dims))
	}
	return append(b, `]}`...)
}

func appendTensorMetadata(b []byte, name string, d tensor.Datatype, shape tensor.Shape) []byte {
	b = appendText(append(b, `{"name":`...), name)
	b = append(b, `,"datatype":"`...)
	b = append(b, d.String()...)
	b = append(b, `","shape":`...)
	b, _ = shape.AppendText(b)
	return append(b, '}')
}

// AppendIndexEntry appends the i-th entry of the repository index. A model that was
// never loaded has a name only.
func AppendIndexEntry(b []byte, i int, name, version, state, reason string) []byte {
	b = appendText(append(comma(b, i), `{"name":`...), name)
	for _, m := range [...]struct{ member, value string }{{`,"version":`, version}, {`,"state":`, state}, {`,"reason":`, reason}} {
		if m.value != "" {
			b = appendText(append(b, m.member...), m.value)
		}
	}
	return append(b, '}')
}

// BeginStatistics and EndStatistics enclose what AppendStatistics appends.
func BeginStatistics(b []byte) []byte { return append(b, `{"model_stats":[`...) }

// EndStatistics ends the statistics.
func EndStatistics(b []byte) []byte { return append(b, `]}`...) }

// AppendStatistics appends the numbers of the i-th version, and what memory it has as far
// as that is known.
func AppendStatistics(b []byte, i int, name string, version int64, s stats.Snapshot, memory []backend.MemoryUsage) []byte {
	b = appendText(append(comma(b, i), `{"name":`...), name)
	b = appendInt(append(b, `,"version":"`...), version)
	b = appendInt(append(b, `","last_inference":`...), s.LastInference)
	b = appendUint(append(b, `,"inference_count":`...), s.InferenceCount)
	b = appendUint(append(b, `,"execution_count":`...), s.ExecutionCount)
	b = append(b, `,"inference_stats":{`...)
	for i, d := range [...]struct {
		name string
		d    stats.Duration
	}{
		{"success", s.Success},
		{"fail", s.Fail},
		{"queue", s.Queue},
		{"compute_input", s.ComputeInput},
		{"compute_infer", s.ComputeInfer},
		{"compute_output", s.ComputeOutput},
		{"cache_hit", s.CacheHit},
		{"cache_miss", s.CacheMiss},
	} {
		b = appendDuration(comma(b, i), d.name, d.d)
	}
	b = append(b, `},"response_stats":{`...)
	for i, r := range s.Responses {
		b = append(comma(b, i), '"')
		b = appendInt(b, int64(r.Index))
		b = appendDuration(append(b, `":{`...), "compute_infer", r.ComputeInfer)
		b = appendDuration(append(b, ','), "compute_output", r.ComputeOutput)
		b = appendDuration(append(b, ','), "success", r.Success)
		b = appendDuration(append(b, ','), "fail", r.Fail)
		b = appendDuration(append(b, ','), "empty_response", r.Empty)
		b = append(appendDuration(append(b, ','), "cancel", r.Cancel), '}')
	}
	b = append(b, `},"batch_stats":[`...)
	for i, t := range s.Batches {
		b = appendInt(append(comma(b, i), `{"batch_size":`...), int64(t.Size))
		b = appendDuration(append(b, ','), "compute_input", t.ComputeInput)
		b = appendDuration(append(b, ','), "compute_infer", t.ComputeInfer)
		b = append(appendDuration(append(b, ','), "compute_output", t.ComputeOutput), '}')
	}
	b = append(b, `],"memory_usage":[`...)
	for i, u := range memory {
		b = appendText(append(comma(b, i), `{"type":`...), u.Type)
		b = appendInt(append(b, `,"id":`...), u.ID)
		b = append(appendUint(append(b, `,"byte_size":`...), u.Bytes), '}')
	}
	return append(b, `]}`...)
}

func appendDuration(b []byte, name string, d stats.Duration) []byte {
	b = append(append(append(b, '"'), name...), `":{"count":`...)
	b = appendUint(b, d.Count)
	b = appendUint(append(b, `,"ns":`...), d.Nanos)
	return append(b, '}')
}
