package options

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func parse(t *testing.T, line string) *Options {
	t.Helper()
	o, err := Parse(strings.Fields(line))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return o
}

// TestForms: getopt's forms of one option.
func TestForms(t *testing.T) {
	for _, line := range []string{
		"-m x -b 4 -i gRPC", "-mx -b4 -igrpc", "--model x --batch-size 4 --protocol grpc", "--model=x --batch-size=4 --protocol=GRPC",
		"--batch 4 --model x --proto grpc",
	} {
		o := parse(t, line)
		got := []any{o.Model, o.Batch, o.Protocol, o.URL, o.Given("batch-size"), o.Given("url")}
		if diff := cmp.Diff(got, []any{"x", 4, "grpc", "localhost:8001", true, false}); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
	for _, line := range []string{"-h", "-?", "--help", "-m x --help"} {
		if _, err := Parse(strings.Fields(line)); !errors.Is(err, ErrHelp) {
			t.Errorf("%s: %v", line, err)
		}
	}
	if _, err := Parse([]string{"--version"}); !errors.Is(err, ErrVersion) {
		t.Error(err)
	}
}

func TestLoads(t *testing.T) {
	for line, want := range map[string]struct {
		mode Mode
		load Range
	}{
		"":                                 {Closed, Range{1, 1, 1}},
		"--concurrency-range 4":            {Closed, Range{4, 4, 1}},
		"--concurrency-range 1:8":          {Closed, Range{1, 8, 1}},
		"--concurrency-range 1:8:2":        {Closed, Range{1, 8, 2}},
		"--concurrency-range 1:0:2 -l 5":   {Closed, Range{1, 0, 2}},
		"--request-rate-range 0.5:2.5:0.5": {Rate, Range{0.5, 2.5, 0.5}},
		"--request-rate-range 100":         {Rate, Range{100, 100, 1}},
		"-t 3":                             {Closed, Range{3, 3, 1}},
		"-t 3 -d -c 9 -l 5":                {Closed, Range{3, 9, 1}},
		"--concurrency-range 2:16 --binary-search -l 5": {Closed, Range{2, 16, 1}},
	} {
		o := parse(t, "-m x "+line)
		if o.Mode != want.mode || o.Load != want.load {
			t.Errorf("%q: %v %v", line, o.Mode, o.Load)
		}
	}
}

func TestValues(t *testing.T) {
	o := parse(t, "-m x -x 3 -p 250 -s 25 -r 4 --percentile 95 -l 7 --shape A:1,2 --shape B:C:3 -H A:b -H C:d:e --sequence-id-range 5:8"+
		" --request-parameter n:1:int --request-parameter s:a:b:string --request-parameter b:true:bool --bls-composing-models a,b:2 -v -v -v"+
		" --trace-level TIMESTAMPS --trace-level TENSORS --trace-rate 9 --measurement-mode count_windows --max-threads 7")
	got := []any{
		o.Version, o.Interval, o.Stability, o.MaxTrials, o.Percentile, o.LatencyLimit, o.Shapes, o.Headers, o.SequenceStart, o.SequenceRange,
		o.Parameters, o.Composing, o.Verbose, o.Trace, o.CountWindows, o.MaxThreads,
	}
	want := []any{
		"3", 250 * time.Millisecond, 0.25, 4, 95, 7 * time.Millisecond,
		map[string][]int64{"A": {1, 2}, "B:C": {3}},
		[]string{"A:b", "C:d:e"},
		uint64(5), uint64(3),
		[]Parameter{{"n", int64(1)}, {"s", "a:b"}, {"b", true}},
		[]string{"a", "b:2"},
		3,
		map[string][]string{"trace_level": {"TIMESTAMPS", "TENSORS"}, "trace_rate": {"9"}},
		true, 7,
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Error(diff)
	}
	if o := parse(t, "-m x --request-count 9"); !o.CountWindows || o.WindowRequests != 9 {
		t.Errorf("%+v", o)
	}
	if o := parse(t, "-m x --sequence-id-range 0:9 --async --enable-mpi"); o.SequenceStart != 1 || len(o.Notes) != 3 {
		t.Errorf("%d, notes %q", o.SequenceStart, o.Notes)
	}
}

func TestMistakes(t *testing.T) {
	for line, want := range map[string]string{
		"":                                                          "Failed to parse -m (model name). The value must be specified.",
		"-m x --concurrency-range 1:2:3:4":                          "The value does not match <start:end:step>.",
		"-m x --concurrency-range a":                                "Failed to parse --concurrency-range. Invalid value provided: a",
		"-m x --concurrency-range 1:2:0":                            "Failed to parse --concurrency-range. The step must be > 0.",
		"-m x --concurrency-range 0":                                "The start of the search range must be > 0",
		"-m x --concurrency-range -1":                               "Failed to parse --concurrency-range. Invalid value provided: -1",
		"-m x --request-rate-range 0":                               "The start of the search range must be > 0.",
		"-m x --concurrency-range 1:0":                              "can not be both 0",
		"-m x --concurrency-range 1:0 --binary-search":              "can not be both 0",
		"-m x --concurrency-range 1:4 --binary-search":              "The --latency-threshold cannot be 0 for binary search mode.",
		"-m x --concurrency-range 4:1 --binary-search -l 1":         "The end of the range can not be less than start",
		"-m x --concurrency-range 1 --request-rate-range 1":         "Cannot use both Concurrency and RequestRate inference load modes.",
		"-m x --request-rate-range 1 --request-intervals /dev/null": "Cannot use both RequestRate and CustomIntervals inference load modes.",
		"-m x --consurrency-range 1":                                "did you mean '--concurrency-range'?",
		"-m x --request-count":                                      "Missing value for option '--request-count'",
		"-m x --request-count 5 --concurrency-range 1:2":            "--request-count not supported with multiple concurrency values in one run",
		"-m x --request-count 5 --concurrency-range 9":              "--request-count can not be less than concurrency",
		"-m x --warmup-request-count 1 --request-rate-range 1:2":    "--warmup-request-count not supported with multiple request rate values",
		"-m x -b 0":                                                 "Failed to parse -b (batch size). The value must be > 0.",
		"-m x -b x":                                                 "Failed to parse -b. Invalid value provided: x",
		"-m x -i udp":                                               "Failed to parse -i (protocol). The value should be either HTTP or gRPC.",
		"-m x --percentile 100":                                     "in range (0, 100)",
		"-m x --percentile 0":                                       "in range (0, 100)",
		"-m x --streaming":                                          "Streaming is only allowed with gRPC protocol",
		"-m x --async --sync":                                       "Cannot specify --async and --sync simultaneously.",
		"-m x -z --input-data /":                                    "The -z flag cannot be set",
		"-m x --input-data /no":                                     "Failed to parse --input-data. Unsupported type provided: '/no'.",
		"-m x --shape A":                                            "There must be a colon after input name.",
		"-m x --shape A:0":                                          "The dimensions of input tensor must be > 0.",
		"-m x --shape A:b":                                          "Failed to parse --shape. Invalid value provided: A:b",
		"-m x -H a":                                                 "The header must be specified as 'Header:Value', got 'a'.",
		"-m x --request-parameter a":                                "The value does not match <name:value:type>.",
		"-m x --request-parameter a:b:c":                            "Unsupported type: 'c'.",
		"-m x --request-parameter a:b:int":                          "Invalid value provided: a:b:int",
		"-m x --sequence-id-range 5:5":                              "The 'end' value must be greater than 'start' value.",
		"-m x --sequence-id-range 1:2:3":                            "The value does not match <start:end>.",
		"-m x --shared-memory cuda":                                 "CUDA shared memory is not supported here",
		"-m x --shared-memory disk":                                 "The available options are 'system', 'cuda', or 'none'.",
		"-m x --grpc-compression-algorithm gzip":                    "Using compression algorithm is only allowed with gRPC protocol.",
		"-m x --metrics-url a":                                      "Must specify --collect-metrics when using the --metrics-url option.",
		"-m x --service-kind torchserve":                            "--service-kind=torchserve is not supported",
		"-m x --service-kind openai":                                "Must supply --input-data for OpenAI service kind.",
		"-m x --service-kind openai --input-data /":                 "Must supply --endpoint for OpenAI service kind.",
		"-m x --measurement-mode x":                                 "Unsupported type provided: 'x'.",
		"-m x --ssl-https-verify-host 3":                            "The value must be either 0, 1, or 2.",
		"-m x --ssl-https-ca-certificates-file /no":                 "The value must be a valid file path.",
		"-m x --trace-level ALL":                                    "The available options are 'OFF', 'TIMESTAMPS', or 'TENSORS'.",
		"-m x --periodic-concurrency-range 1":                       "Both <start> and <end> values must be provided.",
		"-m x --periodic-concurrency-range 5:2":                     "The <start> must be <= <end>.",
		"-m x --periodic-concurrency-range 1:4:2":                   "The <step> value must be a factor of the range size (<end> - <start>).",
		"-m x --periodic-concurrency-range 1:2":                     "requires bi-directional gRPC streaming.",
		"-m x -i grpc --streaming --periodic-concurrency-range 1:2": "Must provide --profile-export-file",
		"-m x --service-kind triton_c_api":                          "--model-repository should not be empty",
	} {
		_, err := Parse(strings.Fields(line))
		if _, ok := errors.AsType[*UsageError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
	if _, err := Parse([]string{"-m", "x", "-H", "a:b\r\nX-Evil: 1"}); err == nil {
		t.Error("a header with a line's end is taken")
	}
}

// TestNotes has what is taken, and said to mean nothing.
func TestNotes(t *testing.T) {
	for line, want := range map[string]string{
		"--sequence-length 0":                "--sequence-length=0 stands for the default",
		"-i grpc --input-tensor-format json": "have no effect over gRPC",
		"--enable-mpi":                       "--enable-mpi has no effect",
		"--model-signature-name x":           "is for TensorFlow Serving and has no effect",
		"--triton-server-directory /x":       "has no effect",
		"--serial-sequences":                 "--serial-sequences has no effect",
		"--async":                            "--async has no effect",
		"--sequence-id-range 0:5":            "a sequence cannot have the id 0",
	} {
		o, err := Parse(strings.Fields("-m x " + line))
		if err != nil || len(o.Notes) != 1 || !strings.Contains(o.Notes[0], want) {
			t.Errorf("%q: %v, %+v, want %q", line, err, o, want)
		}
	}
}

// TestBadValues has values that are no good, and what is said of them.
func TestBadValues(t *testing.T) {
	for line, want := range map[string]string{
		"-b":                                 "Missing value for option '-b'",
		"--batch-size x":                     "Failed to parse --batch-size. Invalid value provided: x",
		"-bx":                                "Failed to parse -b. Invalid value provided: x",
		"-q":                                 "Invalid short option '-q'",
		"-t 2 --concurrency-range 2":         "Cannot use both DeprecatedConcurrency and Concurrency inference load modes.",
		"--request-rate-range 2 -d":          "Cannot use both RequestRate and DeprecatedConcurrency inference load modes.",
		"--request-count -1":                 "Failed to parse --request-count. The value must be > 0.",
		"--trace-count -2":                   "Failed to parse --trace-count. The value must be >= 0 or set to -1 (default).",
		"--log-frequency -1":                 "Failed to parse --log-frequency. The value must be >= 0.",
		"--trace-rate x":                     "Failed to parse --trace-rate. Invalid value provided: x",
		"-s nan":                             "Failed to parse -s. Invalid value provided: nan",
		"--request-rate-range inf":           "Failed to parse --request-rate-range. Invalid value provided: inf",
		"--sequence-length-variation inf":    "Invalid value provided: inf",
		"-p 99999999999999999":               "Failed to parse -p. Invalid value provided: 99999999999999999",
		"--concurrency-range 2000000000":     "Failed to parse --concurrency-range. The value must be at most 1048576.",
		"--num-of-sequences 2000000000":      "Failed to parse --num-of-sequences. Invalid value provided: 2000000000",
		"--periodic-concurrency-range 1:4:0": "Failed to parse --periodic-concurrency-range. The <step> value must be > 0.",
		"-f /":                               "Failed to parse -f. '/' is a directory, expected the name of a file.",
		"-f /no/where/a.csv":                 "Failed to parse -f. '/no/where/a.csv' cannot be written: /no/where: no such file or directory",
		"--profile-export-file /":            "Failed to parse --profile-export-file. '/' is a directory",
		"-H Content-Length:5":                "Failed to parse -H. The header Content-Length is for this program to say.",
		"-H :path:5":                         "The header must be specified as 'Header:Value', got ':path:5'.",
		"--fixed-schedule":                   "When using `--fixed-schedule`, you must provide a dataset using `--input-data`.",
		"--fixed-schedule --input-data / --request-count 2":      "Cannot specify `--request-count`",
		"--fixed-schedule --input-data / --request-rate-range 2": "Cannot use both FixedSchedule and RequestRate inference load modes.",
		"--plot /no/a.svg": "Failed to parse --plot. '/no/a.svg' cannot be written: /no: no such file",
	} {
		_, err := Parse(strings.Fields("-m x " + line))
		if _, ok := errors.AsType[*UsageError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
}

func TestInputData(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.json")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := parse(t, "-m x --input-data "+dir+" --input-data "+file)
	if diff := cmp.Diff(o.InputData, []string{dir, file}); diff != "" {
		t.Error(diff)
	}
	if o := parse(t, "-m x --input-data zero"); !o.Zero || o.InputData != nil {
		t.Errorf("%+v", o)
	}
}

// TestUsage: each option stands in the usage once, and in the names for the shell.
func TestUsage(t *testing.T) {
	var b strings.Builder
	Usage(&b, "perf")
	names := " " + strings.Join(Names(), " ") + " "
	for _, e := range table() {
		if len(e.name) > 1 && (strings.Count(b.String(), "--"+e.name+" ")+strings.Count(b.String(), "--"+e.name+"\n") < 1 ||
			!strings.Contains(names, " --"+e.name)) {
			t.Errorf("--%s is not in the usage", e.name)
		}
	}
}

// TestArguments: the peer's help gives a flag a value, and people write it.
func TestArguments(t *testing.T) {
	for args, want := range map[string]bool{"": true, " true": true, " false": false} {
		o, err := Parse(strings.Fields("-m x -i grpc --ssl-grpc-use-ssl" + args))
		if err != nil || o.TLS.GRPC != want || len(o.Notes) != 0 {
			t.Errorf("%q: %v, TLS %v, %q", args, err, o.TLS.GRPC, o.Notes)
		}
	}
	o, err := Parse([]string{"-m", "x", "y"})
	if err != nil || len(o.Notes) != 1 || o.Notes[0] != "the argument 'y' has no effect" {
		t.Errorf("%v, %q", err, o.Notes)
	}
}
