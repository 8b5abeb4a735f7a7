package options

import (
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// mode says what a run varies; two of them contradict each other, and so do two ways to say it.
func (o *Options) mode(m Mode, said string) error {
	if o.saidMode != "" && o.saidMode != said {
		return usagef("Cannot use both %s and %s inference load modes.", o.saidMode, said)
	}
	o.Mode, o.saidMode = m, said
	return nil
}

func ranged(name string, m Mode) func(*Options, string) error {
	return func(o *Options, s string) error {
		if err := o.mode(m, m.String()); err != nil {
			return err
		}
		r, err := parseRange(name, s, m != Rate)
		o.Load = r
		if err != nil || m != Periodic {
			return err
		}
		return checkPeriodic(s, r)
	}
}

func checkPeriodic(text string, r Range) error {
	const failed = "Failed to parse --periodic-concurrency-range. "
	switch {
	case !strings.Contains(text, ":"):
		return usagef(failed + "Both <start> and <end> values must be provided.")
	case r.Start > r.End:
		return usagef(failed + "The <start> must be <= <end>.")
	case math.Mod(r.End-r.Start, r.Step) != 0:
		return usagef(failed + "The <step> value must be a factor of the range size (<end> - <start>).")
	}
	return nil
}

func measureTable() []entry {
	return append([]entry{
		{"async", "a", "", old, "how requests wait is ours", flag(func(o *Options) *bool { return &o.Async })},
		{"sync", "", "", old, "how requests wait is ours", flag(func(o *Options) *bool { return &o.Sync })},
		{
			"measurement-interval", "p", "MS", measure, "the length of a window; default 5000",
			millis("--measurement-interval (-p)", 1, "> 0 msec", func(o *Options) *time.Duration { return &o.Interval }),
		},
		{"measurement-mode", "", "time_windows|count_windows", measure, "what ends a window; default its time", func(o *Options, s string) error {
			if s != "time_windows" && s != "count_windows" {
				return usagef("Failed to parse --measurement-mode. Unsupported type provided: '%s'. The available options are 'time_windows' or "+
					"'count_windows'.", s)
			}
			o.CountWindows = s == "count_windows"
			return nil
		}},
		{
			"measurement-request-count", "", "N", measure, "requests of a window of count_windows; default 50",
			number("--measurement-request-count", 1, "> 0", func(o *Options) *int { return &o.WindowRequests }),
		},
		{
			"concurrency-range", "", "START:END:STEP", measure, "requests in flight; END 0 means until --latency-threshold",
			ranged("concurrency-range", Closed),
		},
		{
			"periodic-concurrency-range", "", "START:END:STEP", measure, "requests in flight that grow while they stream",
			ranged("periodic-concurrency-range", Periodic),
		},
		{
			"request-period", "", "N", measure, "responses of a request before the next join; default 10",
			number("--request-period", 1, "> 0", func(o *Options) *int { return &o.RequestPeriod }),
		},
		{"request-rate-range", "", "START:END:STEP", measure, "requests a second, sent when they are due", ranged("request-rate-range", Rate)},
		{"request-distribution", "", "constant|poisson", measure, "gaps of a rate; default constant", func(o *Options, s string) error {
			if s != "poisson" && s != "constant" {
				return usagef("Failed to parse --request-distribution. Unsupported type provided: '%s'. Choices are 'poisson' or 'constant'.", s)
			}
			o.Distribution = s
			return nil
		}},
		{"request-intervals", "", "FILE", measure, "gaps between requests in microseconds, one a line", func(o *Options, s string) error {
			if err := o.mode(Intervals, Intervals.String()); err != nil {
				return err
			}
			if info, err := os.Stat(s); err != nil || info.IsDir() {
				return usagef("Failed to parse --request-intervals. The value must be a valid file path")
			}
			o.IntervalsFile = s
			return nil
		}},
		{
			"fixed-schedule", "", "", measure, "each request of --input-data once, at its \"timestamp\", in ms from the begin",
			func(o *Options, _ string) error { return o.mode(Scheduled, Scheduled.String()) },
		},
		{
			"latency-threshold", "l", "MS", measure, "the latency that ends the search; default none",
			millis("--latency-threshold (-l)", 0, ">= 0 msecs", func(o *Options) *time.Duration { return &o.LatencyLimit }),
		},
		{"binary-search", "", "", measure, "halve the range instead of walking it", flag(func(o *Options) *bool { return &o.BinarySearch })},
		{
			"max-threads", "", "N", measure, "connections of a rate at most; default 1024",
			number("--max-threads", 1, "> 0", func(o *Options) *int { return &o.MaxThreads }),
		},
		{"stability-percentage", "s", "N", measure, "how far three windows may differ; default 10", func(o *Options, s string) error {
			v, err := float(s)
			if err == nil && v < 0 {
				return usagef("Failed to parse --stability-percentage (-s). The value must be >= 0.0.")
			}
			o.Stability = v / 100
			return err
		}},
		{
			"max-trials", "r", "N", measure, "windows at most; default 10",
			number("--max-trials (-r)", 1, "> 0", func(o *Options) *int { return &o.MaxTrials }),
		},
		{
			"percentile", "", "N", measure, "the percentile that decides, instead of the mean",
			number("--percentile", -1, "-1 for not reporting or in range (0, 100)", func(o *Options) *int { return &o.Percentile }),
		},
		{
			"request-count", "", "N", measure, "exactly so many requests, instead of windows",
			number("--request-count", 0, "> 0", func(o *Options) *int { return &o.RequestCount }),
		},
		{
			"warmup-request-count", "", "N", measure, "requests before, which do not count",
			number("--warmup-request-count", 0, ">= 0", func(o *Options) *int { return &o.Warmup }),
		},
	}, oldLoads()...)
}

// deprecated is how the peer calls the mode of -t, -c and -d.
const deprecated = "DeprecatedConcurrency"

// oldLoads are the deprecated ways to say how many requests are in flight.
func oldLoads() []entry {
	count := func(label string, p func(o *Options) *float64) func(*Options, string) error {
		return func(o *Options, s string) error {
			if err := o.mode(Closed, deprecated); err != nil {
				return err
			}
			n, err := strconv.Atoi(s)
			if err == nil && n <= 0 {
				return usagef("Failed to parse %s. The value must be > 0.", label)
			}
			*p(o) = float64(n)
			return err
		}
	}
	return []entry{
		{"t", "t", "N", old, "deprecated: requests in flight", count("-t", func(o *Options) *float64 { return &o.Load.Start })},
		{"c", "c", "N", old, "deprecated: the end of the range", count("-c", func(o *Options) *float64 { return &o.Load.End })},
		{"d", "d", "", old, "deprecated: search along the range", func(o *Options, _ string) error { return o.mode(Closed, deprecated) }},
	}
}

// setInputData takes zero, random, a directory or a JSON file.
func setInputData(o *Options, s string) error {
	if _, err := os.Stat(s); err == nil {
		o.InputData = append(o.InputData, s)
		return nil
	}
	switch s {
	case "zero":
		o.Zero = true
		return nil
	case "random":
		return nil
	}
	return usagef("Failed to parse --input-data. Unsupported type provided: '%s'. The available options are 'zero', 'random', path to a "+
		"directory, or a json file.", s)
}

// setShape takes name:1,2,3.
func setShape(o *Options, s string) error {
	colon := strings.LastIndex(s, ":")
	if colon < 0 {
		return usagef("Failed to parse --shape. There must be a colon after input name.")
	}
	var shape []int64
	for f := range strings.SplitSeq(s[colon+1:], ",") {
		n, err := strconv.ParseInt(f, 10, 63)
		if err != nil {
			return err
		}
		if n <= 0 {
			return usagef("Failed to parse --shape. The dimensions of input tensor must be > 0.")
		}
		shape = append(shape, n)
	}
	o.Shapes[s[:colon]] = shape
	return nil
}

// setParameter takes name:value:type.
func setParameter(o *Options, s string) error {
	f := strings.Split(s, ":")
	if len(f) < 3 {
		return usagef("Failed to parse --request-parameter. The value does not match <name:value:type>.")
	}
	p := Parameter{Name: f[0]}
	value, kind := strings.Join(f[1:len(f)-1], ":"), strings.ToLower(f[len(f)-1])
	var err error
	switch kind {
	case "string":
		p.Value = value
	case "int":
		p.Value, err = strconv.ParseInt(value, 10, 64)
	case "bool":
		p.Value, err = strconv.ParseBool(value)
	default:
		return usagef("Failed to parse --request-parameter. Unsupported type: '%s'.", kind)
	}
	o.Parameters = append(o.Parameters, p)
	return err
}

// setIDs takes start or start:end.
func setIDs(o *Options, s string) error {
	first, last, bounded := strings.Cut(s, ":")
	a, err := strconv.ParseInt(first, 10, 64)
	b := a
	if err == nil && bounded {
		b, err = strconv.ParseInt(last, 10, 64)
	}
	switch {
	case err != nil && strings.Count(s, ":") > 1:
		return usagef("Failed to parse --sequence-id-range. The value does not match <start:end>.")
	case err != nil:
		return err
	case a < 0 || b < 0:
		return usagef("Failed to parse --sequence-id-range. The range values must be >= 0.")
	case bounded && a >= b:
		return usagef("Failed to parse --sequence-id-range. The 'end' value must be greater than 'start' value.")
	}
	o.SequenceStart, o.SequenceRange = uint64(a), uint64(b-a)
	return nil
}
