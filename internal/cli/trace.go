package cli

import (
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/internal/spelling"
)

// traceOptions is what --trace-config, and the options that it has replaced, say.
type traceOptions struct {
	trace     neso.Trace
	otel      neso.TraceCollector
	traceMode string
	// traceGiven are the settings that --trace-config has set; a deprecated option
	// does not change those.
	traceGiven map[string]bool
	// traceOld are the deprecated options in their order.
	traceOld [][2]string
	// traceUnknown are settings that mean nothing here.
	traceUnknown []string
}

const (
	modeTriton        = "triton"
	modeOpenTelemetry = "opentelemetry"
	traceTexts        = "Available options are \"triton\" and \"opentelemetry\""
)

// setTraceConfig takes "<setting>=<value>" or "<mode>,<setting>=<value>".
func setTraceConfig(o *serveOptions, s string) error {
	mode, setting, value, err := parseSetting("trace-config", "trace mode", s)
	if err != nil {
		return err
	}
	return o.setTrace(mode, setting, value)
}

func (o *traceOptions) setTrace(mode, setting, value string) error {
	mode = strings.ToLower(mode)
	setting = strings.ToLower(setting)
	if mode != "" && mode != modeTriton && mode != modeOpenTelemetry {
		return fmt.Errorf("invalid value for trace mode option: %s. %s", mode, traceTexts)
	}
	full := setting
	if mode != "" {
		full = mode + "," + setting
	}
	if o.traceGiven == nil {
		o.traceGiven = map[string]bool{}
	}
	err := o.setOne(full, value)
	if err != nil && setting != "mode" && setting != "level" {
		return &usageError{fmt.Sprintf("Bad option: \"--trace-config %s\".\n%v", full, err)}
	}
	o.traceGiven[full] = err == nil
	return err
}

// traceSettings are those that setOne knows.
var traceSettings = []string{
	"mode", "level", "rate", "count", "triton,file", "triton,log-frequency", "opentelemetry,url", "opentelemetry,resource",
	"opentelemetry,bsp_max_queue_size", "opentelemetry,bsp_max_export_batch_size", "opentelemetry,bsp_schedule_delay",
}

// setOne takes one setting. What is not known is not an error: another version
// of the peer may know it.
func (o *traceOptions) setOne(setting, value string) (err error) {
	switch setting {
	case "mode":
		o.traceMode = strings.ToLower(value)
		if o.traceMode != modeTriton && o.traceMode != modeOpenTelemetry {
			return fmt.Errorf("invalid value for trace mode option: %s. %s", value, traceTexts)
		}
	case "level":
		return o.addLevel(value)
	case "rate":
		// 0 asks for no sampling, which is not what the zero value of the field means.
		if o.trace.Rate, err = parseWithin(value, 0, 1<<32-1); o.trace.Rate == 0 {
			o.trace.Rate = -1
		}
	case "count":
		n, fault := parseWithin(value, -1, 1<<31-1)
		o.trace.Count, err = n, fault
		switch n {
		case -1:
			o.trace.Count = 0
		case 0:
			o.trace.Count = -1
		}
	case "triton,file":
		o.trace.File = value
	case "triton,log-frequency":
		o.trace.LogFrequency, err = parseWithin(value, 0, 1<<32-1)
	case "opentelemetry,url":
		o.otel.URL = value
	case "opentelemetry,resource":
		key, text, ok := strings.Cut(value, "=")
		if !ok || key == "" {
			return fmt.Errorf("expected resource=<key>=<value>, got %q", value)
		}
		o.otel.Resource = append(o.otel.Resource, neso.TraceAttribute{Key: key, Value: text})
	case "opentelemetry,bsp_max_queue_size":
		o.otel.MaxQueueSize, err = parseWithin(value, 1, 1<<20)
	case "opentelemetry,bsp_max_export_batch_size":
		o.otel.MaxExportBatch, err = parseWithin(value, 1, 1<<20)
	case "opentelemetry,bsp_schedule_delay":
		// 0 asks for exports at once, which is not what the zero value of the field means.
		n, fault := parseWithin(value, 0, 1<<31-1)
		if o.otel.ScheduleDelay, err = time.Duration(n)*time.Millisecond, fault; n == 0 {
			o.otel.ScheduleDelay = -1
		}
	default:
		o.traceUnknown = append(o.traceUnknown, setting)
	}
	return err
}

func (o *traceOptions) addLevel(value string) error {
	switch strings.ToLower(value) {
	case "false", "off":
	case "true", "on", "min", "max", "timestamps":
		o.trace.Level = append(o.trace.Level, "TIMESTAMPS")
	case "tensors":
		o.trace.Level = append(o.trace.Level, "TENSORS")
	default:
		return fmt.Errorf("invalid value for trace level option: %s. Available options are \"OFF\", \"TIMESTAMPS\" and \"TENSORS\"", value)
	}
	return nil
}

func parseWithin(s string, low, high int) (int, error) {
	v, err := parseInt(s)
	if err == nil && (v < low || v > high) {
		err = fmt.Errorf("expected a number from %d to %d, got %d", low, high, v)
	}
	return v, err
}

// replaced are the deprecated options with the settings that they set, and how
// the peer writes these.
var replaced = map[string]struct{ setting, hint string }{
	"trace-file":          {"triton,file", "triton,file=<file path>"},
	"trace-level":         {"level", "level=<OFF|TIMESTAMPS|TENSORS>"},
	"trace-rate":          {"rate", "rate=<rate value>"},
	"trace-count":         {"count", "count=<count value>"},
	"trace-log-frequency": {"triton,log-frequency", "triton,log-frequency=<log frequency value>"},
}

// setTraceOld checks a deprecated option and keeps it until all are known.
func setTraceOld(name string) func(*serveOptions, string) error {
	return func(o *serveOptions, value string) error {
		var check traceOptions
		if err := check.setOne(replaced[name].setting, value); err != nil {
			return err
		}
		o.traceOld = append(o.traceOld, [2]string{name, value})
		return nil
	}
}

// completeTrace applies the deprecated options and the environment, and makes the
// server's trace of them all.
func (o *serveOptions) completeTrace() error {
	warned := map[string]bool{}
	for _, old := range o.traceOld {
		r := replaced[old[0]]
		if !warned[old[0]] {
			o.warnings = append(o.warnings,
				fmt.Sprintf("'--%s' has been deprecated and will be removed in future releases. Please use '--trace-config %s' instead.", old[0],
					r.hint))
			warned[old[0]] = true
		}
		switch {
		case o.traceGiven[r.setting]:
			o.warnings = append(o.warnings, fmt.Sprintf("'--%s' is ignored, since '--trace-config' says otherwise", old[0]))
		case o.traceMode == modeOpenTelemetry && strings.HasPrefix(r.setting, modeTriton):
			o.warnings = append(o.warnings, fmt.Sprintf("'--%s' is ignored in trace mode opentelemetry", old[0]))
		default:
			if err := o.setOne(r.setting, old[1]); err != nil {
				return err
			}
		}
	}
	for _, setting := range o.traceUnknown {
		text := fmt.Sprintf("--trace-config setting '%s' is not known and has no effect", setting)
		if near := spelling.Nearest(strings.TrimPrefix(setting, "trace_"), traceSettings); near != "" { // as the API calls it
			text += ", did you mean '" + near + "'?"
		}
		o.warnings = append(o.warnings, text)
	}
	o.server.Trace = o.trace
	if o.traceMode != modeOpenTelemetry {
		return nil
	}
	for _, setting := range []string{"bsp_max_queue_size", "bsp_schedule_delay", "bsp_max_export_batch_size"} {
		name := "OTEL_" + strings.ToUpper(setting)
		value := os.Getenv(name)
		if value == "" || o.traceGiven[modeOpenTelemetry+","+setting] {
			continue
		}
		if err := o.setOne(modeOpenTelemetry+","+setting, value); err != nil {
			return &usageError{fmt.Sprintf("Bad option: \"%s\".\n%v", name, err)}
		}
	}
	if err := o.traceHeaders(); err != nil {
		return err
	}
	if slices.Contains(o.trace.Level, "TENSORS") {
		o.warnings = append(o.warnings, "trace level TENSORS has no effect in trace mode opentelemetry: spans hold no tensors")
	}
	o.server.Trace.File, o.server.Trace.LogFrequency = "", 0
	o.server.Trace.Collector = &o.otel
	return nil
}

// traceHeaders takes the headers of exports from the environment, as
// OpenTelemetry has it: "name=value,name=value" with percent-encoding.
func (o *traceOptions) traceHeaders() error {
	name := "OTEL_EXPORTER_OTLP_TRACES_HEADERS"
	list := os.Getenv(name)
	if list == "" {
		name = "OTEL_EXPORTER_OTLP_HEADERS"
		list = os.Getenv(name)
	}
	for item := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(item) == "" {
			continue
		}
		key, value, ok := strings.Cut(item, "=")
		text, err := url.PathUnescape(strings.TrimSpace(value))
		key = strings.TrimSpace(key)
		if !ok || err != nil || key == "" || strings.ContainsAny(key, "\r\n\x00: ") || strings.ContainsAny(text, "\r\n\x00") {
			return &usageError{fmt.Sprintf("Bad option: \"%s\".\nexpected <name>=<value>[,...]", name)} // not what it holds: it may be a key
		}
		o.otel.Headers = append(o.otel.Headers, neso.TraceAttribute{Key: key, Value: text})
	}
	return nil
}
