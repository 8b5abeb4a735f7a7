package tracing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// queuedTraces bounds the traces that wait for the disk, and queuedText the texts
	// in them, also where they wait for a collector.
	queuedTraces = 4096
	queuedText   = 64 << 20
	// retireWait is how long a change of the settings waits until the traces made
	// under the old ones are in their file.
	retireWait = time.Second
)

// jsonFile writes traces in the peer's form. One goroutine, which the first trace
// starts, has the files; a disk that is full or slow costs traces, not requests.
type jsonFile struct {
	path    string
	wait    time.Duration // retireWait
	dropped dropped
	text    atomic.Int64

	mu      sync.Mutex
	jobs    chan job // nil before the first trace
	closed  bool
	stopped chan struct{}

	// Of the goroutine.
	main   *growing
	groups map[*sampler]*group
	next   int  // number of the next numbered file
	broken bool // the last write failed, which has been said
	log    *slog.Logger
	buffer []byte
}

// job is a trace, or the end of a sampler.
type job struct {
	trace  *Trace
	retire *sampler
	done   chan struct{}
}

// group is what a sampler's traces are collected in until there are enough of
// them for a file.
type group struct {
	file      *growing
	traces    uint32
	collected int64
}

func newJSONFile(path string, log *slog.Logger) *jsonFile {
	return &jsonFile{
		path: path, wait: retireWait, log: log, dropped: dropped{log: log}, groups: map[*sampler]*group{},
		stopped: make(chan struct{}),
	}
}

func (f *jsonFile) export(tr *Trace) {
	if tr.text > maxText {
		f.dropped.add(1, "their tensors, or ids, are too large")
		return
	}
	if f.text.Add(int64(tr.text)) > queuedText {
		f.text.Add(-int64(tr.text))
		f.dropped.add(1, "the disk is too slow")
		return
	}
	if !f.send(job{trace: tr}) {
		f.text.Add(-int64(tr.text))
	}
}

// send hands a job to the goroutine, and starts it for the first one.
func (f *jsonFile) send(j job) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		f.dropped.add(1, "the server has stopped")
		return false
	}
	if f.jobs == nil {
		f.jobs = make(chan job, queuedTraces)
		go f.run(f.jobs)
	}
	select {
	case f.jobs <- j:
		return true
	default:
		if j.trace != nil {
			f.dropped.add(1, "the disk is too slow")
		}
		return false
	}
}

func (f *jsonFile) lost() uint64 { return f.dropped.n.Load() }

func (f *jsonFile) retire(s *sampler) {
	f.mu.Lock()
	idle := f.jobs == nil
	f.mu.Unlock()
	if idle {
		return
	}
	done := make(chan struct{})
	if !f.send(job{retire: s, done: done}) {
		return
	}
	t := time.NewTimer(f.wait)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

func (f *jsonFile) close(ctx context.Context) error {
	f.mu.Lock()
	started := f.jobs != nil
	if !f.closed {
		f.closed = true
		if started {
			close(f.jobs)
		}
	}
	f.mu.Unlock()
	if !started {
		return nil
	}
	select {
	case <-f.stopped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("traces are still being written: %w", ctx.Err())
	}
}

// run writes until the channel is closed.
func (f *jsonFile) run(jobs <-chan job) {
	defer close(f.stopped)
	for j := range jobs {
		if j.trace != nil {
			f.write(j.trace)
			f.text.Add(-int64(j.trace.text))
		}
		if j.retire != nil {
			f.end(j.retire)
		}
		if j.done != nil {
			close(j.done)
		}
	}
	for s := range f.groups {
		f.end(s)
	}
	if f.main != nil {
		f.main.close()
	}
}

// write puts a trace where it belongs: with the others of its sampler, or, where
// nothing says how many go together, at the end of the file itself.
func (f *jsonFile) write(tr *Trace) {
	s := tr.sampler
	f.buffer = appendTrace(f.buffer[:0], tr)
	if cap(f.buffer) > maxText {
		defer func() { f.buffer = nil }()
	}
	g := f.groups[s]
	if g == nil {
		g = &group{}
		if !s.retired {
			f.groups[s] = g
		}
	}
	g.collected++
	to := &g.file
	if s.settings.LogFrequency == 0 && (s.settings.Count < 0 || s.retired) {
		to = &f.main
	}
	if len(f.buffer) > 0 && !f.appendTo(to, f.buffer) {
		return
	}
	if to != &g.file {
		return
	}
	g.traces++
	full := s.settings.LogFrequency != 0 && g.traces >= s.settings.LogFrequency
	last := s.settings.Count >= 0 && s.left.Load() == 0 && g.collected >= s.made.Load()
	if full || last || s.retired {
		f.number(g)
	}
}

// appendTo writes to a file, which it opens if need be.
func (f *jsonFile) appendTo(to **growing, text []byte) bool {
	err := error(nil)
	if *to == nil {
		path := f.path
		if to != &f.main {
			path = f.part()
		}
		*to, err = create(path)
	}
	if err == nil {
		err = (*to).append(text)
	}
	if err == nil {
		f.broken = false
		return true
	}
	f.dropped.n.Add(1)
	f.complain(err)
	return false
}

// complain says once that writing fails, until it works again.
func (f *jsonFile) complain(err error) {
	if !f.broken {
		f.broken = true
		f.log.Error("failed to write traces; requests go on, and traces are dropped until it works again", "file", f.path, "error", err.Error())
	}
}

// part returns a name for a file that is not full yet. It is hidden, so that a
// pattern for the numbered ones does not find it.
func (f *jsonFile) part() string {
	dir, base := filepath.Split(f.path)
	for i := 0; ; i++ {
		if path := fmt.Sprintf("%s.%s.part%d", dir, base, i); !f.taken(path) {
			return path
		}
	}
}

// taken reports whether another group writes to the file.
func (f *jsonFile) taken(path string) bool {
	for _, g := range f.groups {
		if g.file != nil && g.file.path == path {
			return true
		}
	}
	return false
}

// number gives a group's file the next number.
func (f *jsonFile) number(g *group) {
	g.traces = 0
	if g.file == nil {
		return
	}
	g.file.close()
	if err := os.Rename(g.file.path, fmt.Sprintf("%s.%d", f.path, f.next)); err != nil {
		f.complain(err)
	}
	f.next++
	g.file = nil
}

// end takes note that a sampler makes no more traces; some may still be unfinished.
// It puts the collected ones where users look for them.
func (f *jsonFile) end(s *sampler) {
	s.retired = true
	g := f.groups[s]
	delete(f.groups, s)
	switch {
	case g == nil || g.file == nil:
	case s.settings.LogFrequency != 0:
		f.number(g)
	default:
		g.file.close()
		if err := f.moveToMain(g.file.path); err != nil {
			f.complain(err)
		}
	}
}

// moveToMain appends the traces of a file to those of the main one.
func (f *jsonFile) moveToMain(path string) error {
	part, err := os.Open(path)
	if err != nil {
		return err
	}
	defer part.Close()
	if f.main == nil {
		if f.main, err = create(f.path); err != nil {
			return err
		}
	}
	info, err := part.Stat()
	if err != nil {
		return err
	}
	if err := f.main.take(io.NewSectionReader(part, 1, info.Size()-2)); err != nil {
		return err
	}
	_ = part.Close() // an open file cannot be removed on every system
	return os.Remove(path)
}

// growing is a file that holds one JSON array at any time.
type growing struct {
	path string
	file *os.File
	end  int64 // where its closing bracket is
}

func create(path string) (*growing, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	g := &growing{path: path, file: file, end: 1}
	if _, err := file.WriteAt([]byte("[]"), 0); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return g, nil
}

// append adds objects, with the commas between them.
func (g *growing) append(objects []byte) error {
	text := make([]byte, 0, len(objects)+2)
	if g.end > 1 {
		text = append(text, ',')
	}
	text = append(append(text, objects...), ']')
	if _, err := g.file.WriteAt(text, g.end); err != nil {
		return errors.Join(err, g.restore())
	}
	g.end += int64(len(text)) - 1
	return nil
}

// take appends all objects of r.
func (g *growing) take(r io.Reader) error {
	at := g.end
	to := io.NewOffsetWriter(g.file, at)
	var err error
	if at > 1 {
		_, err = to.Write([]byte{','})
	}
	if err == nil {
		_, err = io.Copy(to, r)
	}
	if err == nil {
		_, err = to.Write([]byte{']'})
	}
	if err != nil {
		return errors.Join(err, g.restore())
	}
	var size int64
	if size, err = to.Seek(0, io.SeekCurrent); err == nil {
		g.end = at + size - 1
	}
	return err
}

// restore makes the file what it was before a write that failed.
func (g *growing) restore() error {
	if err := g.file.Truncate(g.end); err != nil {
		return err
	}
	_, err := g.file.WriteAt([]byte{']'}, g.end)
	return err
}

func (g *growing) close() { _ = g.file.Close() } // all has been written before
