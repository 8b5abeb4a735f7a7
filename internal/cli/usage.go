package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/nesoserve/neso/internal/cli/terminal"
)

// shownDefaults are the defaults that the usage prints, as they would be given
// on the command line; a test holds them against defaults().
var shownDefaults = map[string]string{
	"exit-timeout-secs":                "30",
	"log-verbose":                      "0",
	"log-info":                         "true",
	"log-warning":                      "true",
	"log-error":                        "true",
	"log-format":                       "default",
	"exit-on-error":                    "true",
	"strict-readiness":                 "true",
	"model-control-mode":               "none",
	"model-load-thread-count":          "4",
	"model-load-retry-count":           "0",
	"allow-http":                       "true",
	"http-address":                     "0.0.0.0",
	"http-port":                        "8000",
	"reuse-http-port":                  "false",
	"http-max-input-size":              "67108864",
	"allow-grpc":                       "true",
	"grpc-address":                     "0.0.0.0",
	"grpc-port":                        "8001",
	"reuse-grpc-port":                  "false",
	"allow-metrics":                    "true",
	"allow-sagemaker":                  "false",
	"allow-vertex-ai":                  "false",
	"allow-gpu-metrics":                "true",
	"allow-cpu-metrics":                "true",
	"min-supported-compute-capability": "6.0",
	"metrics-port":                     "8002",
	"sagemaker-port":                   "8080",
	"vertex-ai-port":                   "8080",
	"warmup-in-statistics":             "false",
	"strict-outputs":                   "false",
}

// usage prints every option in tritonserver's layout.
func usage(w io.Writer, table []option, program string) {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: %s [options]\n", program)
	group := "-"
	for _, o := range table {
		if o.group != group {
			group = o.group
			if group != groupGlobal {
				fmt.Fprintf(&b, "\n%s:\n", group)
			}
		}
		b.WriteString("  --" + o.name)
		if o.kind != "" {
			b.WriteString(" <" + strings.Trim(o.kind, "<>") + ">")
		}
		b.WriteByte('\n')
		help := o.help
		if v := shownDefaults[o.name]; v != "" {
			help += " Default: " + v + "."
		}
		if o.unused != "" {
			help += " (Accepted without effect: " + o.unused + ".)"
		}
		for _, line := range terminal.Wrap(help, 60) {
			b.WriteString("\t" + line + "\n")
		}
	}
	_, _ = io.WriteString(w, b.String()) // there is nowhere else to report to
}
