//go:build edge

package tracing

import (
	"fmt"
	"log/slog"
)

// newCollector says that this build sends no traces.
func newCollector(o Collector, _ *slog.Logger) (exporter, error) {
	return nil, fmt.Errorf("the trace collector %q: this program has been built without OpenTelemetry's protocol (the tag edge); "+
		"expected a file for the traces", o.URL)
}
