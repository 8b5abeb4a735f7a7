package tune

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/nesoserve/neso/internal/modelconfig/edit"
	"github.com/nesoserve/neso/internal/tune/checkpoint"
	"github.com/nesoserve/neso/internal/tune/knobs"
	"github.com/nesoserve/neso/internal/tune/overlay"
	"github.com/nesoserve/neso/internal/tune/report"
	"github.com/nesoserve/neso/internal/tune/search"
	"github.com/nesoserve/neso/internal/tune/server"
	"github.com/nesoserve/neso/internal/tune/trial"
)

// study is one search under way.
type study struct {
	*Study
	plan      *Plan
	env       Env
	directory string
	state     *checkpoint.State
	knobs     []knobs.Knob
	goal      trial.Goal
	progress  *progress
	// idle is a server with the configurations as they are, for the first measurement.
	idle *live
	temp string
}

func (s *study) run(ctx context.Context) error {
	s.goal = trial.Goal{}
	for _, m := range s.Models {
		s.goal[m.Name] = m.Aim
	}
	if err := os.MkdirAll(s.directory, 0o755); err != nil {
		return err
	}
	if err := s.open(); err != nil {
		return err
	}
	var err error
	if s.temp, err = os.MkdirTemp("", "neso-tune-"); err != nil {
		return err
	}
	defer os.RemoveAll(s.temp)
	defer func() { s.idle.close() }()
	if err := s.describe(ctx); err != nil {
		return err
	}
	s.progress = newProgress(s.env, s.plan.Quiet, s.state.Runs)
	defer s.progress.clear()
	err = s.search(ctx)
	if err == nil {
		err = s.confirm(ctx)
	}
	if errors.Is(err, context.Canceled) && len(s.state.Runs) == 0 {
		return errNothing
	}
	return err
}

// open reads the checkpoint and sees that it belongs here.
func (s *study) open() error {
	setting, err := s.setting()
	if err != nil {
		return err
	}
	if !s.plan.Restart {
		if s.state, err = checkpoint.Load(s.directory); err != nil {
			return err
		}
	}
	if s.state == nil {
		s.state = &checkpoint.State{}
	} else if what := s.state.Setting.Same(setting); what != "" {
		return fmt.Errorf("%s has measurements with another setting (%s): give --restart to begin anew, or another --output", s.directory, what)
	}
	s.state.Neso, s.state.Setting = s.env.Version, *setting
	s.state.Machine = checkpoint.Machine{Processors: runtime.GOMAXPROCS(0), OS: runtime.GOOS + "/" + runtime.GOARCH}
	s.state.Runs = slices.DeleteFunc(s.state.Runs, func(r trial.Run) bool { return r.Cut })
	s.state.Goal = s.written()
	if s.plan.Restart || len(s.state.Models) == 0 {
		s.state.Models = nil
	}
	return nil
}

// options are those of the servers.
func (s *study) options() []string { return append(slices.Clone(s.plan.Server), s.Server...) }

// setting is what measurements must have in common.
func (s *study) setting() (*checkpoint.Setting, error) {
	out := &checkpoint.Setting{Load: map[string][]string{}, Server: s.options(), Configs: map[string]string{}, Repositories: s.Repositories}
	timing := fmt.Sprintf("%v %g%% %d", s.plan.Interval, s.plan.Stability, s.plan.Windows)
	for _, m := range s.Models {
		out.Models = append(out.Models, m.Name)
		out.Load[m.Name] = append(slices.Clone(m.Perf), timing, fmt.Sprintf("%+v", m.Loads))
	}
	for _, name := range append(slices.Clone(out.Models), s.Composing...) {
		dir, err := overlay.Find(s.Repositories, name)
		if err != nil {
			return nil, err
		}
		text, err := overlay.Config(dir)
		if err != nil {
			return nil, err
		}
		out.Configs[name] = string(text)
	}
	return out, nil
}

// written is the goal as it is kept.
func (s *study) written() checkpoint.Goal {
	g := checkpoint.Goal{Search: s.plan.Search.Mode, Knobs: map[string]int{}, Fields: s.plan.Files.Fields}
	var texts []string
	for _, m := range s.Models {
		of := checkpoint.GoalOfModel{
			Model: m.Name, Weight: m.Aim.Weight, Objectives: m.Aim.Objectives, Min: map[trial.Metric]float64{}, Max: map[trial.Metric]float64{},
		}
		for metric, l := range m.Aim.Limits {
			if l.Min == l.Min { // no NaN
				of.Min[metric] = l.Min
			}
			if l.Max == l.Max {
				of.Max[metric] = l.Max
			}
		}
		g.Models = append(g.Models, of)
		texts = append(texts, of.String())
	}
	slices.Sort(texts)
	g.Text = strings.Join(slices.Compact(texts), "; ")
	return g
}

// describe learns what the models are, from a server that has them as they are or from
// what was kept, and makes the knobs.
func (s *study) describe(ctx context.Context) error {
	if len(s.state.Models) == 0 {
		l, err := s.start(ctx, nil)
		if err != nil {
			return fmt.Errorf("the models do not load as they are: %w", err)
		}
		s.idle = l
		if s.state.Models, err = s.models(ctx, l); err != nil {
			return err
		}
	}
	s.knobs = nil
	for _, m := range s.state.Models {
		c, err := knobs.Read(m.Completed)
		if err != nil {
			return err
		}
		space := &s.Space
		for _, p := range s.Models {
			if p.Name == m.Name && p.Space != nil {
				space = p.Space
			}
		}
		space.Isolatable = s.env.Isolatable
		list, err := space.Of(c)
		if err != nil {
			return err
		}
		s.knobs = append(s.knobs, list...)
	}
	for _, k := range s.knobs {
		s.state.Goal.Knobs[k.Model+":"+k.Name] = len(k.Values)
	}
	return nil
}

// models asks the server for the configurations of all that is tuned: the models that
// requests go to, what ensembles are made of, and what is called.
func (s *study) models(ctx context.Context, l *live) ([]checkpoint.Model, error) {
	var all []checkpoint.Model
	var add func(name string, loaded bool) error
	add = func(name string, loaded bool) error {
		if slices.ContainsFunc(all, func(m checkpoint.Model) bool { return m.Name == name }) {
			return nil
		}
		dir, err := overlay.Find(s.Repositories, name)
		if err != nil {
			return err
		}
		text, err := overlay.Config(dir)
		if err != nil {
			return err
		}
		completed, err := l.config(ctx, name)
		if err != nil {
			return err
		}
		all = append(all, checkpoint.Model{
			Name: name, Directory: dir, Missing: text == nil, Config: string(text), Loaded: loaded, Completed: completed,
		})
		c, err := knobs.Read(completed)
		if err != nil {
			return err
		}
		for _, inner := range c.Composing() {
			if err := add(inner, false); err != nil {
				return err
			}
		}
		return nil
	}
	for _, m := range s.Models {
		if err := add(m.Name, true); err != nil {
			return nil, err
		}
	}
	for _, name := range s.Composing {
		if err := add(name, false); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// search measures configurations until the search is at its end.
func (s *study) search(ctx context.Context) error {
	p := search.Problem{Measure: s.measure, Plan: s.progress.plan}
	for _, k := range s.knobs {
		p.Sizes, p.Start = append(p.Sizes, len(k.Values)), append(p.Start, k.Start)
	}
	_, s.progress.base = knobs.Variant(s.knobs, p.Start)
	s.progress.begin(s.Models, s.knobs, p.Count(), s.plan.Search.Mode)
	switch s.plan.Search.Mode {
	case "brute":
		return search.Brute(ctx, p)
	case "halving":
		return s.plan.Search.Halving.Run(ctx, p)
	default:
		return search.Quick(ctx, p)
	}
}

// measure has a point measured, unless it was before.
func (s *study) measure(ctx context.Context, point []int, effort int) (search.Score, error) {
	changes, labels := knobs.Variant(s.knobs, point)
	variant := trial.Variant(changes)
	key := variant.Key()
	for i := range s.state.Runs {
		if r := &s.state.Runs[i]; r.Round == 0 && r.Effort == effort && r.Variant.Key() == key {
			_, score := s.goal.Best(r.Levels)
			return score, nil
		}
	}
	r, err := s.one(ctx, variant, labels, trial.Run{Effort: effort}, nil)
	if err != nil {
		return search.Score{}, err
	}
	_, score := s.goal.Best(r.Levels)
	return score, s.hopeless()
}

// mostFailures is how many of the first servers may fail, before a search is given up.
const mostFailures = 3

// hopeless is why a search is given up: nothing could be measured, the configuration as
// it is neither.
func (s *study) hopeless() error {
	runs := s.state.Runs
	if len(runs) < mostFailures {
		return nil
	}
	for i := range runs {
		if best, _ := s.goal.Best(runs[i].Levels); best != nil {
			return nil
		}
	}
	return fmt.Errorf("none of the first %d configurations could be measured: %s", len(runs),
		report.Failure(&trial.Result{Failure: runs[0].Failure, Levels: runs[0].Levels}))
}

// one measures one server and keeps what comes of it. loads nil are those of the plan.
func (s *study) one(ctx context.Context, v trial.Variant, labels map[string]string, r trial.Run, loads []trial.Load) (*trial.Run, error) {
	r.ID, r.Variant, r.Values = s.nextID(), v, labels
	s.progress.start(&r)
	began := time.Now()
	l := s.idle
	s.idle = nil
	if l != nil && len(v) > 0 {
		l.close()
		l = nil
	}
	var err error
	if l == nil {
		l, err = s.start(ctx, v)
	}
	if err == nil {
		r.LoadSeconds = l.seconds
		s.levels(ctx, l, &r, loads)
		l.close()
	}
	if ctx.Err() != nil {
		r.Cut = true
		if len(r.Levels) > 0 {
			s.state.Runs = append(s.state.Runs, r)
			return nil, errors.Join(ctx.Err(), s.save())
		}
		return nil, ctx.Err()
	}
	if _, ours := errors.AsType[*placeError](err); ours {
		return nil, err
	}
	if err != nil {
		r.Failure = err.Error()
	}
	r.Seconds = time.Since(began).Seconds()
	s.state.Runs = append(s.state.Runs, r)
	s.progress.done(&r, s.goal)
	return &s.state.Runs[len(s.state.Runs)-1], s.save()
}

// save writes the checkpoint. Where its directory takes it no more, what was measured is
// kept with the temporary files.
func (s *study) save() error {
	err := s.state.Save(s.directory)
	if err == nil {
		return nil
	}
	if dir, made := os.MkdirTemp("", "neso-tune-kept-"); made == nil {
		if s.state.Save(dir) == nil {
			return fmt.Errorf("%w. All of it is in %s: put that there, and the same command goes on", err,
				filepath.Join(dir, checkpoint.Filename))
		}
		os.RemoveAll(dir)
	}
	return fmt.Errorf("%w. What was measured before the last configuration is there", err)
}

func (s *study) nextID() int {
	n := 0
	for _, r := range s.state.Runs {
		n = max(n, r.ID)
	}
	return n + 1
}

// confirm measures the best once more, by turns with the configuration as it is, each
// time in a server of its own, at the load that each does best at.
func (s *study) confirm(ctx context.Context) error {
	var plain []trial.Run
	for _, r := range s.state.Runs {
		if r.Round == 0 {
			plain = append(plain, r)
		}
	}
	ranked := s.goal.Rank(trial.Results(plain))
	var chosen []trial.Ranked
	for _, r := range ranked {
		if r.Best != nil && (len(chosen) < s.plan.Top || r.Key == "") {
			chosen = append(chosen, r)
		}
	}
	if len(chosen) < 2 || s.plan.Rounds == 0 {
		return nil
	}
	left := 0
	for round := 1; round <= s.plan.Rounds; round++ {
		for _, c := range chosen {
			if !s.confirmed(c.Key, round) {
				left++
			}
		}
	}
	for round := 1; round <= s.plan.Rounds; round++ {
		for _, c := range chosen {
			if s.confirmed(c.Key, round) {
				continue
			}
			s.progress.plan(left)
			left--
			if _, err := s.one(ctx, c.Variant, c.Values, trial.Run{Effort: 1, Round: round}, []trial.Load{c.Best.Load}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *study) confirmed(key string, round int) bool {
	return slices.ContainsFunc(s.state.Runs, func(r trial.Run) bool { return r.Round == round && r.Variant.Key() == key })
}

// live is a server that runs, and where its repository lies.
type live struct {
	*server.Server
	directory string
	seconds   float64
	gpus      bool // its metrics tell of some
}

func (l *live) close() {
	if l != nil {
		l.Close()
		os.RemoveAll(l.directory)
	}
}

// placeError is a model repository that could not be made for a server: nothing that the
// configuration is to blame for.
type placeError struct{ err error }

func (e *placeError) Error() string {
	return "the model repository of a server cannot be made in the directory of temporary files (TMPDIR): " + e.err.Error()
}

func (e *placeError) Unwrap() error { return e.err }

// placed is what a repository could not be made for: a configuration that cannot be
// changed so is a result, files that cannot be written are none.
func placed(err error) error {
	_, file := errors.AsType[*fs.PathError](err)
	_, link := errors.AsType[*os.LinkError](err)
	if file || link {
		return &placeError{err}
	}
	return err
}

// start starts a server with a variant.
func (s *study) start(ctx context.Context, v map[string][]edit.Change) (*live, error) {
	dir, err := os.MkdirTemp(s.temp, "models-")
	if err != nil {
		return nil, &placeError{err}
	}
	l := &live{directory: dir}
	if err = overlay.Make(dir, s.Repositories, v); err != nil {
		err = placed(err)
	} else {
		began := time.Now()
		var names []string
		for _, m := range s.Models {
			names = append(names, m.Name)
		}
		o := server.Options{
			Binary: s.env.Binary, Args: append(s.env.Serve(dir, append(names, s.Composing...)), s.options()...), Env: s.Env,
			LoadTimeout: s.plan.LoadTimeout, StopTimeout: stopTimeout,
		}
		l.Server, err = server.Start(ctx, o)
		l.seconds = time.Since(began).Seconds()
	}
	if err == nil {
		l.gpus = l.hasGPUs(ctx)
	}
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return l, nil
}

// stopTimeout is how long a server may take to end, which has ten seconds for its requests.
const stopTimeout = 20 * time.Second
