// Package testmodel owns `neso test-model`: it loads one model and runs its own
// samples. Open testmodel.go first, then sample.go.
package testmodel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/cli/modelpath"
	"github.com/nesoserve/neso/internal/cli/signals"
)

// testModel is `neso test-model`.
type testModel struct {
	python, backends string
	files, with      []string
	repeat           int
	timeout          time.Duration
	strict           bool
	out, log         io.Writer
}

// ErrFailed says that a sample has failed, which has been printed.
var ErrFailed = errors.New("a sample failed")

// Command is `neso test-model`, which prints to out, and the log to log.
func Command(out, log io.Writer) *cobra.Command {
	t := testModel{out: out, log: log}
	c := &cobra.Command{
		Use:   "test-model DIR",
		Short: "Load one model and run its own sample inputs",
		Long: `Loads the model in directory DIR (of a model repository), without any network,
runs its samples, and prints the outputs and how long they took. Samples are

  DIR/samples/*.json    requests as clients send them to /v2/models/<name>/infer,
                        with the outputs that are expected, if you like, in
                        "expect": {"outputs": [...], "tolerance": 1e-5} or
                        "expect": {"error": "part of the text"}
  model_warmup          the warm-up samples of config.pbtxt, if there are no files

A model without samples is only loaded. Exit status 1 when it does not load, or a
sample fails or answers something else than expected, or than config.pbtxt says.`,
		Example: "  neso test-model models/digits\n  neso test-model models/digits --samples one.json --repeat 100",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signals.Context(cmd.Context(), slog.New(slog.DiscardHandler))
			defer stop()
			if t.repeat < 1 {
				return errors.New("--repeat: expected a number from 1 on")
			}
			ok, err := t.run(ctx, args[0])
			if err == nil && !ok {
				err = ErrFailed
			}
			return err
		},
	}
	f := c.Flags()
	f.StringArrayVar(&t.files, "samples", nil, "a sample `FILE` in place of those in DIR/samples; repeatable")
	f.StringArrayVar(&t.with, "with", nil, "another `MODEL` of the repository to load, which this one calls; repeatable")
	f.IntVar(&t.repeat, "repeat", 1, "how often each sample runs")
	f.DurationVar(&t.timeout, "timeout", time.Minute, "how long one run of a sample may take")
	f.BoolVar(&t.strict, "strict-outputs", true, "outputs that are not as configured are errors, see neso serve")
	f.StringVar(&t.python, "python", "", "interpreter of Python models, see neso serve")
	f.StringVar(&t.backends, "backend-directory", "", "where python-based backends lie")
	return c
}

// run loads the model and runs its samples; false when one of them fails.
func (t *testModel) run(ctx context.Context, path string) (ok bool, err error) {
	dir, err := modelpath.Directory(path)
	if err != nil {
		return false, err
	}
	name := filepath.Base(dir)
	begin := time.Now()
	srv, err := modelpath.Load(ctx, dir, t.python, t.backends, t.with, t.strict, t.log)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, srv.Close()) }()
	fmt.Fprintf(t.out, "model %s loaded in %s\n", name, brief(time.Since(begin)))
	list, err := t.samples(srv, dir, name)
	if err != nil {
		return false, err
	}
	if len(list) == 0 {
		fmt.Fprintf(t.out, "it has no samples: put requests into %s, or model_warmup into config.pbtxt\n", filepath.Join(path, "samples"))
		return true, nil
	}
	failed := 0
	for i := range list {
		if err := t.one(ctx, srv, &list[i]); err != nil {
			failed++
			fmt.Fprintf(t.out, "sample %s: FAILED: %v\n", list[i].name, err)
		}
	}
	noun := "samples"
	if len(list) == 1 {
		noun = "sample"
	}
	fmt.Fprintf(t.out, "%d %s, %d failed\n", len(list), noun, failed)
	return failed == 0, nil
}

// samples returns the samples of the model: of files, else of its warm-up.
func (t *testModel) samples(srv *neso.Server, dir, name string) ([]sample, error) {
	files := t.files
	if files == nil {
		files, _ = filepath.Glob(filepath.Join(dir, "samples", "*.json")) // the pattern is a good one
	}
	var list []sample
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		s, err := parseSample(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		s.name, s.request.Model = filepath.Base(file), name
		list = append(list, s)
	}
	if list != nil {
		return list, nil
	}
	warm, err := srv.WarmupRequests(name)
	for _, w := range warm {
		list = append(list, sample{name: w.ID, request: w})
	}
	return list, err
}

// one runs a sample and prints its outputs, those of the first run, and its
// latencies.
func (t *testModel) one(ctx context.Context, srv *neso.Server, s *sample) error {
	var took []time.Duration
	for n := range t.repeat {
		begin := time.Now()
		responses, err := t.ask(ctx, srv, s)
		if err != nil {
			return err
		}
		took = append(took, time.Since(begin))
		if n == 0 {
			fmt.Fprintf(t.out, "sample %s\n", s.name)
			for _, line := range outputLines(responses) {
				fmt.Fprintf(t.out, "  %s\n", line)
			}
		}
		err = s.check(responses)
		for _, r := range responses {
			r.Release()
		}
		if err != nil {
			return err
		}
	}
	slices.Sort(took)
	line := "  took " + brief(took[len(took)/2])
	if len(took) > 1 {
		line += fmt.Sprintf(" (median of %d; least %s, most %s)", len(took), brief(took[0]), brief(took[len(took)-1]))
	}
	fmt.Fprintln(t.out, line)
	return nil
}

// ask runs a request of any kind of model and returns its responses.
func (t *testModel) ask(ctx context.Context, srv *neso.Server, s *sample) ([]*backend.Response, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, t.timeout, fmt.Errorf("no answer within %v", t.timeout))
	defer cancel()
	var all []*backend.Response
	done := make(chan error, 1) // the model may never come back: nobody waits for it then
	go func() {
		done <- srv.Stream(ctx, s.request, func(r *backend.Response) bool {
			all = append(all, r)
			return true
		})
	}()
	select {
	case err := <-done:
		if err != nil {
			return []*backend.Response{{Err: backend.AsError(err)}}, nil
		}
		return all, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// brief is a duration in three digits or so.
func brief(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

// outputLines prints responses, a line for each tensor.
func outputLines(responses []*backend.Response) []string {
	var lines []string
	for i, r := range responses {
		prefix := ""
		if len(responses) > 1 {
			prefix = fmt.Sprintf("response %d: ", i+1)
		}
		if r.Err != nil {
			lines = append(lines, fmt.Sprintf("%serror %s: %s", prefix, r.Err.Code, strings.TrimSpace(r.Err.Message)))
			continue
		}
		for k := range r.Outputs {
			o := &r.Outputs[k]
			lines = append(lines, fmt.Sprintf("%s%s %s %s: %s", prefix, o.Name, o.Datatype, o.Shape, printed(o)))
		}
		if len(r.Outputs) == 0 {
			lines = append(lines, prefix+"no outputs")
		}
	}
	if len(responses) == 0 {
		lines = append(lines, "no responses")
	}
	return lines
}
