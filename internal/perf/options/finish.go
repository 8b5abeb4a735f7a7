package options

import (
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// finish fills what follows from other options and refuses what contradicts them.
func (o *Options) finish() error {
	if !o.given["url"] && o.Protocol == "grpc" {
		o.URL = "localhost:8001"
	}
	if o.given["c"] && !o.given["d"] {
		o.Load.End = o.Load.Start // as the peer has it: -c bounds the search that -d begins
	}
	if o.given["t"] && !o.given["c"] {
		o.Load.End = o.Load.Start
	}
	if o.SequenceStart == 0 {
		o.SequenceStart = 1
		o.note("a sequence cannot have the id 0, ids begin with 1")
	}
	if o.given["sequence-length"] && o.SequenceLength == 0 {
		o.note("a sequence has at least one request: --sequence-length=0 stands for the default")
	}
	if o.Protocol == "grpc" && (o.JSONInput || o.JSONOutput) {
		o.note("--input-tensor-format and --output-tensor-format have no effect over gRPC")
		o.JSONInput, o.JSONOutput = false, false
	}
	if o.Mode == Periodic {
		if o.RequestCount > 0 || o.Warmup > 0 {
			o.note("--request-count and --warmup-request-count have no effect with --periodic-concurrency-range: its end is the number of requests")
		}
		o.RequestCount, o.Warmup = int(o.Load.End), 0
	}
	if o.RequestCount > 0 {
		o.CountWindows, o.WindowRequests = true, o.RequestCount
	}
	if o.Mode == Intervals || o.Mode == Scheduled {
		o.BinarySearch = false
	}
	if o.Async {
		o.note("--async has no effect: every request in flight has a connection of its own and costs no thread")
	}
	if o.CollectMetrics && !o.given["metrics-url"] {
		if host, _, err := net.SplitHostPort(strings.TrimPrefix(strings.TrimPrefix(o.URL, "http://"), "https://")); err == nil {
			o.MetricsURL = net.JoinHostPort(host, "8002") + "/metrics"
		}
	}
	for _, check := range []func() error{o.checkBasics, o.checkRange, o.checkCounts, o.checkKinds, o.checkFiles} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// ownHeaders say how requests and answers are framed.
var ownHeaders = []string{
	"connection", "content-length", "content-type", "expect", "inference-header-content-length", "te", "trailer",
	"transfer-encoding", "upgrade",
}

func (o *Options) checkBasics() error {
	switch {
	case o.Model == "":
		return usagef("Failed to parse -m (model name). The value must be specified.")
	case o.Streaming && o.Protocol != "grpc" && o.Kind == "triton":
		return usagef("Streaming is only allowed with gRPC protocol and Triton C API.")
	case o.given["grpc-compression-algorithm"] && o.Protocol != "grpc":
		return usagef("Using compression algorithm is only allowed with gRPC protocol.")
	case o.Percentile != -1 && (o.Percentile > 99 || o.Percentile < 1):
		return usagef("Failed to parse --percentile. The value must be -1 for not reporting or in range (0, 100).")
	case o.Zero && len(o.InputData) > 0:
		return usagef("The -z flag cannot be set when --data-directory is provided.")
	case o.Async && o.Sync:
		return usagef("Cannot specify --async and --sync simultaneously.")
	case o.given["metrics-url"] && !o.CollectMetrics:
		return usagef("Must specify --collect-metrics when using the --metrics-url option.")
	case o.given["metrics-interval"] && !o.CollectMetrics:
		return usagef("Must specify --collect-metrics when using the --metrics-interval option.")
	case o.CollectMetrics && o.Kind != "triton":
		return usagef("Server-side metric collection is only supported with Triton client backend.")
	case o.SharedMemory != "none" && o.Kind != "triton":
		return usagef("Cannot use --shared-memory=%s with --service-kind=%s.", o.SharedMemory, o.Kind)
	case (o.JSONInput || o.JSONOutput) && o.SharedMemory != "none":
		return usagef("Cannot use --input-tensor-format=json or --output-tensor-format=json with --shared-memory=system or --shared-memory=cuda.")
	}
	for _, h := range o.Headers {
		name, value, ok := strings.Cut(h, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case !ok, !httpguts.ValidHeaderFieldName(name), !httpguts.ValidHeaderFieldValue(value):
			return usagef("Failed to parse -H. The header must be specified as 'Header:Value', got '%s'.", h)
		case slices.Contains(ownHeaders, strings.ToLower(name)):
			return usagef("Failed to parse -H. The header %s is for this program to say.", name)
		}
	}
	return nil
}

func (o *Options) checkRange() error {
	endless := o.Load.End == 0
	switch {
	case o.Load.Start <= 0 && o.Mode == Rate:
		return usagef("Failed to parse --request-rate-range. The start of the search range must be > 0.")
	case o.Load.Start <= 0 || math.IsNaN(o.Load.End):
		return usagef("The start of the search range must be > 0")
	case o.Mode == Periodic && !o.Streaming && o.Kind != "triton_c_api":
		return usagef("The --periodic-concurrency-range option requires bi-directional gRPC streaming.")
	case o.Mode == Periodic && o.Export == "":
		return usagef("Must provide --profile-export-file when using the --periodic-concurrency-range option.")
	case endless && o.Mode != Periodic && o.LatencyLimit == 0:
		return usagef("The end of the search range and the latency limit can not be both 0 (or 0.0) simultaneously")
	case endless && o.BinarySearch:
		return usagef("The end of the range can not be 0 (or 0.0) for binary search mode.")
	case o.BinarySearch && o.LatencyLimit == 0:
		return usagef("The --latency-threshold cannot be 0 for binary search mode.")
	case o.BinarySearch && o.Load.End < o.Load.Start:
		return usagef("The end of the range can not be less than start of the range for binary search mode.")
	}
	return nil
}

func (o *Options) checkCounts() error {
	several := o.Load.End == 0 || o.Load.End > o.Load.Start
	what := "concurrency"
	if o.Mode == Rate {
		what = "request rate"
	}
	if o.Mode != Closed && o.Mode != Rate {
		return nil
	}
	switch {
	case o.Warmup > 0 && several:
		return usagef("--warmup-request-count not supported with multiple %s values in one run", what)
	case o.RequestCount > 0 && float64(o.RequestCount) < math.Trunc(o.Load.Start):
		return usagef("--request-count can not be less than %s", what)
	case o.RequestCount > 0 && several:
		return usagef("--request-count not supported with multiple %s values in one run", what)
	}
	return nil
}

// checkFiles finds what cannot be written before anything is measured.
func (o *Options) checkFiles() error {
	files := map[string][]string{"-f": {o.Report}, "--profile-export-file": {o.Export}, "--plot": o.Plots}
	for _, name := range []string{"-f", "--profile-export-file", "--plot"} {
		for _, path := range files[name] {
			if path == "" {
				continue
			}
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				return usagef("Failed to parse %s. '%s' is a directory, expected the name of a file.", name, path)
			}
			if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
				return usagef("Failed to parse %s. '%s' cannot be written: %s: no such file or directory", name, path, filepath.Dir(path))
			}
		}
	}
	return nil
}

func (o *Options) checkKinds() error {
	if o.Mode == Scheduled {
		switch {
		case o.RequestCount > 0 || o.Warmup > 0:
			return usagef("Cannot specify `--request-count` or `--warmup-request-count` when using `--fixed-schedule`. Each request in the input " +
				"data is sent once.")
		case len(o.InputData) == 0:
			return usagef("When using `--fixed-schedule`, you must provide a dataset using `--input-data`.")
		}
	}
	if o.Kind == "triton_c_api" {
		switch {
		case o.Repository == "":
			return usagef("%s should not be empty when using service-kind=triton_c_api.", "--"+"model-repository")
		case o.SharedMemory != "none":
			return usagef("Cannot use --shared-memory with --service-kind=triton_c_api: tensors never leave the process.")
		case o.Streaming:
			o.note("--streaming has no effect within the process: a model may always answer any number of times")
		}
	}
	if o.Kind == "openai" {
		switch {
		case len(o.InputData) == 0:
			return usagef("Must supply --input-data for OpenAI service kind.")
		case o.Endpoint == "":
			return usagef("Must supply --endpoint for OpenAI service kind. For example, \"v1/chat/completions\".")
		case o.Batch != 1:
			return usagef("Batching is not currently supported with OpenAI service-kind")
		}
	}
	return nil
}
