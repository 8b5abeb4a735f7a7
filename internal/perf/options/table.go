package options

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// entry is one option.
type entry struct {
	name, letter string
	value        string // what stands behind it in the usage; "" for a flag
	group, help  string
	set          func(o *Options, value string) error
}

// The groups of the usage.
const (
	general  = "GENERAL"
	measure  = "MEASUREMENT"
	sequence = "SEQUENCES"
	input    = "INPUT DATA"
	request  = "REQUESTS"
	server   = "SERVER"
	reports  = "REPORTS"
	old      = "ACCEPTED WITHOUT EFFECT, OR DEPRECATED"
)

func table() []entry {
	return append(append(append(generalTable(), measureTable()...), dataTable()...), serverTable()...)
}

func flag(p func(o *Options) *bool) func(*Options, string) error {
	return func(o *Options, _ string) error { *p(o) = true; return nil }
}

func text(p func(o *Options) *string) func(*Options, string) error {
	return func(o *Options, s string) error { *p(o) = s; return nil }
}

// number takes whole numbers from least on; label is how the peer names the option.
func number(label string, least int, said string, p func(o *Options) *int) func(*Options, string) error {
	return func(o *Options, s string) error {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err == nil && n < least {
			return usagef("Failed to parse %s. The value must be %s.", label, said)
		}
		*p(o) = n
		return err
	}
}

func millis(label string, least int, said string, p func(o *Options) *time.Duration) func(*Options, string) error {
	return func(o *Options, s string) error {
		var n int
		err := number(label, least, said, func(*Options) *int { return &n })(o, s)
		if err == nil && n > math.MaxInt64/int(time.Millisecond) {
			return strconv.ErrRange
		}
		*p(o) = time.Duration(n) * time.Millisecond
		return err
	}
}

// mostLoad bounds what is in flight at once, and sequences.
const mostLoad = 1 << 20

// atMost refuses numbers above most.
func atMost(most int, set func(*Options, string) error) func(*Options, string) error {
	return func(o *Options, s string) error {
		if n, err := strconv.Atoi(strings.TrimSpace(s)); err == nil && n > most {
			return fmt.Errorf("more than %d", most)
		}
		return set(o, s)
	}
}

// float reads a number that is one.
func float(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
		return 0, strconv.ErrSyntax
	}
	return v, err
}

// word takes one of the words; said is the end of the peer's sentence.
func word(label, said string, words []string, p func(o *Options) *string) func(*Options, string) error {
	return func(o *Options, s string) error {
		if slices.Contains(words, s) {
			*p(o) = s
			return nil
		}
		return usagef("Failed to parse %s. Unsupported type provided: '%s'. %s", label, s, said)
	}
}

func file(name string, p func(o *Options) *string) func(*Options, string) error {
	return func(o *Options, s string) error {
		if info, err := os.Stat(s); err != nil || info.IsDir() {
			return usagef("Failed to parse --%s. The value must be a valid file path.", name)
		}
		*p(o) = s
		return nil
	}
}

// nothing takes an option that means nothing here.
func nothing(why string) func(*Options, string) error {
	return func(o *Options, _ string) error { o.note("%s", why); return nil }
}

func generalTable() []entry {
	return []entry{
		{"help", "h", "", general, "this text", func(*Options, string) error { return nil }},
		{"version", "", "", general, "the version", func(*Options, string) error { return nil }},
		{"model", "m", "NAME", general, "the model", text(func(o *Options) *string { return &o.Model })},
		{"model-version", "x", "VERSION", general, "its version; default the newest", text(func(o *Options) *string { return &o.Version })},
		{
			"service-kind", "", "KIND", general, "triton (any KServe v2 server), openai, or triton_c_api (the server within this process)",
			func(o *Options, s string) error {
				switch s {
				case "triton", "openai", "triton_c_api":
					o.Kind = s
					return nil
				case "tfserving", "torchserve", "dynamic_grpc":
					return usagef("--service-kind=%s is not supported: this generator speaks KServe v2 and OpenAI's protocol", s)
				}
				return usagef("Failed to parse --service-kind. Unsupported type provided: '%s'. The available options are 'triton', 'openai', "+
					"or 'triton_c_api'.", s)
			},
		},
		{"endpoint", "", "PATH", general, "of openai: v1/chat/completions", text(func(o *Options) *string { return &o.Endpoint })},
		{"verbose", "v", "", general, "every window, and how busy the generator was", func(o *Options, _ string) error {
			o.Verbose++
			return nil
		}},
		{
			"bls-composing-models", "", "NAME[:VERSION],...", general, "models that a BLS model calls, for the server's numbers",
			func(o *Options, s string) error {
				for name := range strings.SplitSeq(strings.ReplaceAll(s, " ", ""), ",") {
					if name != "" {
						o.Composing = append(o.Composing, name)
					}
				}
				return nil
			},
		},
		{
			"model-signature-name", "", "NAME", old, "of TensorFlow Serving",
			nothing("--model-signature-name is for TensorFlow Serving and has no effect"),
		},
		{"enable-mpi", "", "", old, "several generators over MPI", nothing("--enable-mpi has no effect: start the generators yourself")},
		{
			"triton-server-directory", "", "PATH", old, "where Triton is installed",
			nothing("--triton-server-directory has no effect: the server in this process is Neso"),
		},
		{
			"data-directory", "", "PATH", old, "deprecated, as --input-data",
			func(o *Options, s string) error { return setInputData(o, s) },
		},
	}
}

func serverTable() []entry {
	return append(tlsTable(), []entry{
		{"url", "u", "HOST:PORT", server, "default localhost:8000, with grpc localhost:8001", func(o *Options, s string) error {
			o.URL = s
			return nil
		}},
		{"protocol", "i", "http|grpc", server, "default http", func(o *Options, s string) error {
			if o.Protocol = strings.ToLower(s); o.Protocol != "http" && o.Protocol != "grpc" {
				return usagef("Failed to parse -i (protocol). The value should be either HTTP or gRPC.")
			}
			return nil
		}},
		{
			"model-repository", "", "DIR", server, "of triton_c_api: the models to load",
			text(func(o *Options) *string { return &o.Repository }),
		},
		{"collect-metrics", "", "", server, "read the server's metrics meanwhile", flag(func(o *Options) *bool { return &o.CollectMetrics })},
		{"metrics-url", "", "URL", server, "default localhost:8002/metrics", text(func(o *Options) *string { return &o.MetricsURL })},
		{
			"metrics-interval", "", "MS", server, "default 1000",
			millis("--metrics-interval", 1, "> 0 msecs", func(o *Options) *time.Duration { return &o.MetricsInterval }),
		},
		{"trace-level", "", "LEVEL", server, "the server's trace setting: OFF, TIMESTAMPS or TENSORS", func(o *Options, s string) error {
			if s != "OFF" && s != "TIMESTAMPS" && s != "TENSORS" {
				return usagef("Failed to parse %s. Unsupported type provided: '%s'. The available options are 'OFF', 'TIMESTAMPS', or 'TENSORS'.",
					"--"+"trace-level", s)
			}
			o.Trace["trace_level"] = append(o.Trace["trace_level"], s)
			return nil
		}},
		{"trace-rate", "", "N", server, "the server's trace setting", trace("trace_rate", 0, ">= 0.")},
		{"trace-count", "", "N", server, "the server's trace setting", trace("trace_count", -1, ">= 0 or set to -1 (default).")},
		{"log-frequency", "", "N", server, "the server's trace setting", trace("log_frequency", 0, ">= 0.")},

		{"filename", "f", "FILE", reports, "the report; CSV has perf_analyzer's columns", text(func(o *Options) *string { return &o.Report })},
		{
			"format", "", "csv|json|html", reports, "of the report; without -f it goes to standard output, the rest to standard error",
			word("--format", "The available options are 'csv', 'json', or 'html'.", []string{"csv", "json", "html"},
				func(o *Options) *string { return &o.Format }),
		},
		{"plot", "", "FILE.svg|FILE.png", reports, "the plots of the HTML report as a picture; repeatable", setPlot},
		{"verbose-csv", "", "", reports, "more columns", flag(func(o *Options) *bool { return &o.VerboseCSV })},
		{
			"profile-export-file", "", "FILE", reports, "every request with its times, as JSON",
			text(func(o *Options) *string { return &o.Export }),
		},
		{"no-progress", "", "", reports, "no progress line on a terminal", flag(func(o *Options) *bool { return &o.NoProgress })},
	}...)
}

// trace takes whole numbers from least on for a setting of the server's traces; said is
// the end of the peer's sentence.
func trace(setting string, least int, said string) func(*Options, string) error {
	return func(o *Options, s string) error {
		n, err := strconv.Atoi(s)
		if err != nil {
			return err
		}
		if n < least {
			return usagef("Failed to parse --%s. The value must be %s", strings.ReplaceAll(setting, "_", "-"), said)
		}
		o.Trace[setting] = []string{s}
		return nil
	}
}

func tlsTable() []entry {
	bit := func(name string, most int, said string, p func(o *Options) *bool) func(*Options, string) error {
		return func(o *Options, s string) error {
			n, err := strconv.Atoi(s)
			if err != nil || n < 0 || n > most {
				return usagef("Failed to parse --%s. The value must be %s.", name, said)
			}
			*p(o) = n > 0
			return nil
		}
	}
	der := func(name string, p func(o *Options) *bool) func(*Options, string) error {
		return func(o *Options, s string) error {
			if s != "PEM" && s != "DER" {
				return usagef("Failed to parse --%s. Unsupported type provided: '%s'. The available options are 'PEM' or 'DER'.", name, s)
			}
			*p(o) = s == "DER"
			return nil
		}
	}
	path := func(name, help string, p func(o *Options) *string) entry {
		return entry{name, "", "FILE", server, help, file(name, p)}
	}
	return []entry{
		{"ssl-grpc-use-ssl", "", "", server, "gRPC over TLS", flag(func(o *Options) *bool { return &o.TLS.GRPC })},
		path("ssl-grpc-root-certifications-file", "whom gRPC trusts, PEM", func(o *Options) *string { return &o.TLS.GRPCRoots }),
		path("ssl-grpc-private-key-file", "gRPC's private key, PEM", func(o *Options) *string { return &o.TLS.GRPCKey }),
		path("ssl-grpc-certificate-chain-file", "gRPC's certificate, PEM", func(o *Options) *string { return &o.TLS.GRPCChain }),
		{
			"ssl-https-verify-peer", "", "0|1", server, "whether the certificate is verified; default 1",
			bit("ssl-https-verify-peer", 1, "either 0 or 1", func(o *Options) *bool { return &o.TLS.VerifyPeer }),
		},
		{
			"ssl-https-verify-host", "", "0|1|2", server, "whether its name is; default 2",
			bit("ssl-https-verify-host", 2, "either 0, 1, or 2", func(o *Options) *bool { return &o.TLS.VerifyHost }),
		},
		path("ssl-https-ca-certificates-file", "whom HTTPS trusts, PEM", func(o *Options) *string { return &o.TLS.CA }),
		path("ssl-https-client-certificate-file", "HTTPS's certificate", func(o *Options) *string { return &o.TLS.Certificate }),
		{
			"ssl-https-client-certificate-type", "", "PEM|DER", server, "default PEM",
			der("ssl-https-client-certificate-type", func(o *Options) *bool { return &o.TLS.CertificateDER }),
		},
		path("ssl-https-private-key-file", "HTTPS's private key", func(o *Options) *string { return &o.TLS.Key }),
		{
			"ssl-https-private-key-type", "", "PEM|DER", server, "default PEM",
			der("ssl-https-private-key-type", func(o *Options) *bool { return &o.TLS.KeyDER }),
		},
	}
}

func setPlot(o *Options, s string) error {
	if ext := strings.ToLower(filepath.Ext(s)); ext != ".svg" && ext != ".png" {
		return usagef("Failed to parse --plot. The name must end in .svg or .png, got '%s'.", s)
	}
	o.Plots = append(o.Plots, s)
	return nil
}
