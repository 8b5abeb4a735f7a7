package perf

import (
	"context"
	"io"

	"github.com/nesoserve/neso/internal/perf/options"
	"github.com/nesoserve/neso/internal/perf/report"
)

// Measure runs what the options say without a word, and writes no file. Where ctx ends it,
// or the error does, the report has what was measured until then; it may be nil.
func Measure(ctx context.Context, o *options.Options, version string) (*report.Run, error) {
	s, err := setup(ctx, o, Env{Stdout: io.Discard, Stderr: io.Discard, Version: version})
	if err != nil {
		return nil, err
	}
	defer s.close()
	s.profile(ctx)
	return s.report, s.failure
}
