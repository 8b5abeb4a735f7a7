// Package options owns the command line of the load generator: perf_analyzer's
// options under their own names, those of our own, and what of them contradicts
// each other. Open options.go first, then table.go.
package options

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/nesoserve/neso/internal/spelling"
)

// Mode is what a run of the load generator varies.
type Mode int

// Closed keeps a number of requests in flight, Rate sends so many a second,
// Intervals sends after the gaps of a file, Periodic adds requests in flight while
// earlier ones stream, Scheduled sends each request of the data when that says.
const (
	Closed Mode = iota
	Rate
	Intervals
	Periodic
	Scheduled
)

func (m Mode) String() string {
	return [...]string{"Concurrency", "RequestRate", "CustomIntervals", "PeriodicConcurrency", "FixedSchedule"}[m]
}

// Range is start:end:step. End 0 means without end.
type Range struct{ Start, End, Step float64 }

// Options are what one run was asked for. Parse fills the defaults.
type Options struct {
	Model, Version string
	// Kind is triton, openai or triton_c_api, which runs the server in this process.
	Kind string
	// URL is host:port, Protocol http or grpc.
	URL, Protocol string
	Endpoint      string
	Repository    string // of triton_c_api
	Batch         int

	Mode          Mode
	Load          Range // of requests in flight, or of requests a second
	Distribution  string
	IntervalsFile string
	RequestPeriod int
	MaxThreads    int // 0 is not given

	CountWindows    bool
	Interval        time.Duration
	WindowRequests  int
	RequestCount    int
	Warmup          int
	Stability       float64 // a share: 0.1
	MaxTrials       int
	Percentile      int // -1 is not given: the mean decides
	LatencyLimit    time.Duration
	BinarySearch    bool
	Async, Sync     bool
	Streaming       bool
	Sequences       int
	SequenceLength  int // 0 is not given
	LengthVariation float64
	SequenceStart   uint64
	SequenceRange   uint64 // ids from SequenceStart on; 0 without bounds

	InputData    []string
	Zero         bool
	StringLength int
	StringData   *string
	Shapes       map[string][]int64
	SharedMemory string
	OutputRegion int // bytes of an output's region
	JSONInput    bool
	JSONOutput   bool

	Headers     []string // Name:Value
	Parameters  []Parameter
	Compression string
	TLS         TLS
	Composing   []string // of a BLS model: name or name:version

	CollectMetrics  bool
	MetricsURL      string
	MetricsInterval time.Duration
	Trace           map[string][]string // settings of the server

	Verbose    int
	Report     string // the file of -f
	Format     string // of the report: csv, json or html
	Plots      []string
	VerboseCSV bool
	Export     string
	NoProgress bool

	// Notes are options that were taken and mean nothing here, said once.
	Notes []string

	given map[string]bool
	// saidMode names the load mode that was asked for, "" for none.
	saidMode string
}

// Parameter is one of --request-parameter: Value is a string, an int64 or a bool.
type Parameter struct {
	Name  string
	Value any
}

// TLS is what the options of encryption say.
type TLS struct {
	GRPC                   bool
	GRPCRoots, GRPCKey     string
	GRPCChain              string
	VerifyPeer, VerifyHost bool
	CA, Certificate, Key   string
	CertificateDER, KeyDER bool
}

// UsageError is a mistake on the command line.
type UsageError struct{ Text string }

func (e *UsageError) Error() string { return e.Text }

func usagef(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// ErrHelp and ErrVersion say that this was all that was asked for.
var (
	ErrHelp    = errors.New("help was asked for")
	ErrVersion = errors.New("the version was asked for")
)

func defaults() *Options {
	return &Options{
		Kind: "triton", URL: "localhost:8000", Protocol: "http", Batch: 1, Load: Range{1, 1, 1}, Distribution: "constant", RequestPeriod: 10,
		Interval: 5 * time.Second, WindowRequests: 50, Stability: 0.1, MaxTrials: 10, Percentile: -1, Sequences: 4, LengthVariation: 20,
		SequenceStart: 1, StringLength: 128, Shapes: map[string][]int64{}, SharedMemory: "none", OutputRegion: 102400, Compression: "none",
		Format: "csv",
		TLS:    TLS{VerifyPeer: true, VerifyHost: true}, MetricsURL: "localhost:8002/metrics", MetricsInterval: time.Second,
		Trace: map[string][]string{}, given: map[string]bool{},
	}
}

// Parse reads args by getopt_long's rules: --name=value, --name value, unique
// prefixes of names, letters with their value behind them. Every fault is a
// *UsageError, but those that ask for help or the version.
func Parse(args []string) (*Options, error) {
	o := defaults()
	fs := pflag.NewFlagSet("perf", pflag.ContinueOnError)
	fs.SortFlags, fs.Usage = false, func() {}
	for _, e := range table() {
		set := func(value string) error {
			o.given[e.name] = true
			if err := e.set(o, value); err != nil {
				return &UsageError{explain(&e, value, err, args)}
			}
			return nil
		}
		if e.value == "" {
			fs.BoolFuncP(e.name, e.letter, e.help, set)
		} else {
			fs.FuncP(e.name, e.letter, e.help, set)
		}
	}
	fs.SetNormalizeFunc(expand)
	for i, a := range args {
		if a == "-?" {
			args = append(slices.Clone(args[:i]), append([]string{"-h"}, args[i+1:]...)...)
		}
	}
	err := fs.Parse(args)
	if usage, ok := errors.AsType[*UsageError](err); ok {
		return nil, usage
	}
	switch {
	case errors.Is(err, pflag.ErrHelp), o.given["help"]:
		return nil, ErrHelp
	case o.given["version"]:
		return nil, ErrVersion
	case err != nil:
		return nil, unknown(err)
	}
	o.arguments(fs.Args())
	return o, o.finish()
}

// arguments takes what stands beside the options, which the peer ignores: the value of
// its help for a flag that takes none, and what has no meaning.
func (o *Options) arguments(args []string) {
	for _, a := range args {
		switch {
		case o.given["ssl-grpc-use-ssl"] && a == "true":
		case o.given["ssl-grpc-use-ssl"] && a == "false":
			o.TLS.GRPC = false
		default:
			o.note("the argument '%s' has no effect", a)
		}
	}
}

// explain is the text of a value that is no good: set's own, or what the peer says
// of a number that is none.
func explain(e *entry, value string, err error, args []string) string {
	if usage, ok := errors.AsType[*UsageError](err); ok {
		return usage.Text
	}
	name := "--" + e.name
	if letter := "-" + e.letter; e.letter != "" && byLetter(letter, value, args) {
		name = letter
	}
	return fmt.Sprintf("Failed to parse %s. Invalid value provided: %s", name, value)
}

// byLetter reports whether an option has its value under its letter: -b 1, or -b1.
func byLetter(letter, value string, args []string) bool {
	for i, a := range args {
		if a == letter+value || a == letter && i+1 < len(args) && args[i+1] == value {
			return true
		}
	}
	return false
}

// expand takes a prefix of one name for the name.
func expand(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	var found []string
	for _, e := range table() {
		if e.name == name {
			return pflag.NormalizedName(name)
		}
		if len(name) > 1 && strings.HasPrefix(e.name, name) {
			found = append(found, e.name)
		}
	}
	if len(found) == 1 {
		return pflag.NormalizedName(found[0])
	}
	return pflag.NormalizedName(name)
}

func unknown(err error) error {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "unknown flag: --"); ok {
		var names []string
		for _, e := range table() {
			names = append(names, e.name)
		}
		text = "Invalid long option '--" + name + "'"
		if near := spelling.Nearest(name, names); near != "" {
			text += ", did you mean '--" + near + "'?"
		}
		return &UsageError{text}
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		name := missing.GetSpecifiedName()
		return usagef("Missing value for option '%s'", map[bool]string{true: "-", false: "--"}[len(name) == 1]+name)
	}
	if rest, ok := strings.CutPrefix(text, "unknown shorthand flag: '"); ok {
		letter, _, _ := strings.Cut(rest, "'")
		return usagef("Invalid short option '-%s'", letter)
	}
	return usagef("%s", text)
}

// Given reports whether an option was on the command line.
func (o *Options) Given(name string) bool { return o.given[name] }

// ReportOut reports whether the report goes to standard output, and what else is said
// goes beside it.
func (o *Options) ReportOut() bool { return o.given["format"] && o.Report == "" }

// note keeps what is said once of an option that means nothing here.
func (o *Options) note(format string, args ...any) {
	o.Notes = append(o.Notes, fmt.Sprintf(format, args...))
}

// parseRange reads start:end:step; what is not given is as in missing, the end
// being the start.
func parseRange(name, text string, whole bool) (Range, error) {
	fields := strings.Split(text, ":")
	if len(fields) > 3 {
		return Range{}, usagef("Failed to parse --%s. The value does not match <start:end:step>.", name)
	}
	r := Range{Step: 1}
	for i, f := range fields {
		var v float64
		var err error
		if whole {
			var n uint64
			n, err = strconv.ParseUint(f, 10, 31)
			v = float64(n)
		} else {
			v, err = float(f)
		}
		if err != nil {
			return r, err
		}
		*[]*float64{&r.Start, &r.End, &r.Step}[i] = v
	}
	if len(fields) == 1 {
		r.End = r.Start
	}
	if whole && max(r.Start, r.End) > mostLoad {
		return r, usagef("Failed to parse --%s. The value must be at most %d.", name, mostLoad)
	}
	if r.Step <= 0 && name == "periodic-concurrency-range" {
		return r, usagef("Failed to parse --%s. The <step> value must be > 0.", name)
	}
	if r.Step <= 0 {
		return r, usagef("Failed to parse --%s. The step must be > 0.", name)
	}
	return r, nil
}
