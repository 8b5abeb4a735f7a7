package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

var errZygoteEnded = errors.New("the zygote has ended")

// zygote is a process that forks workers: it has imported what each of them
// needs. It reports how they end.
type zygote struct {
	proc *process
	wg   sync.WaitGroup

	mu       sync.Mutex // guards the channels too: a FORK and its descriptors go together
	ended    bool
	lastID   uint64
	forks    map[uint64]chan forked
	children map[uint32]*process
	early    map[uint32]exitStatus // ends of children whose fork is still being noted
	hello    chan struct{}
}

type forked struct {
	pid uint32
	err error
}

// startZygote starts a zygote and waits for its HELLO.
func (l *Launcher) startZygote(ctx context.Context, cmd Command) (*zygote, error) {
	direct := cmd
	direct.Args, direct.Zygote, direct.Dir = cmd.Zygote, nil, ""
	p, err := l.spawn(direct, &lineLog{logger: l.Logger})
	if err != nil {
		return nil, err
	}
	z := &zygote{
		proc: p, forks: map[uint64]chan forked{}, children: map[uint32]*process{}, early: map[uint32]exitStatus{}, hello: make(chan struct{}),
	}
	gone := make(chan struct{})
	z.wg.Go(func() {
		defer close(gone)
		z.read()
	})
	select {
	case <-z.hello:
		return z, nil
	case <-gone:
		p.await(time.Second)
		err = fmt.Errorf("%s did not start: %v", cmd.Path, withOutput(p.status.String(), p.lines))
	case <-ctx.Done():
		err = fmt.Errorf("%s did not start in time: %v", cmd.Path, withOutput(ctx.Err().Error(), p.lines))
	}
	p.kill()
	z.close()
	return nil, err
}

// withOutput adds the last lines of a process to what happened to it.
func withOutput(what string, lines *lineLog) string {
	if last := lines.last(); last != "" {
		return what + "; its last output:\n" + last
	}
	return what
}

// read takes the zygote's frames until it ends.
func (z *zygote) read() {
	r := frameReader{src: z.proc.ch.Control}
	defer r.close()
	greeted := false
	for {
		h, body, err := r.next()
		if err != nil {
			break
		}
		switch h.Kind { //nolint:exhaustive // a zygote sends no other kinds
		case KindHello:
			if !greeted {
				greeted = true
				close(z.hello)
			}
		case KindForked:
			pid, err := decodeForked(body)
			z.answer(h.ID, forked{pid, err})
		case KindFailed:
			var f FailedBody
			_ = json.Unmarshal(body, &f)
			z.answer(h.ID, forked{err: errors.New(f.Message)})
		case KindExited:
			if pid, status, err := decodeExited(body); err == nil {
				z.exited(pid, waitStatus(status))
			}
		}
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.ended = true
	for id, answer := range z.forks {
		delete(z.forks, id)
		answer <- forked{err: errZygoteEnded}
	}
	// How its children end nobody will learn any more.
	for pid, p := range z.children {
		delete(z.children, pid)
		p.end(exitStatus{})
	}
}

func (z *zygote) answer(id uint64, f forked) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if answer := z.forks[id]; answer != nil {
		delete(z.forks, id)
		answer <- f
	}
}

func (z *zygote) exited(pid uint32, s exitStatus) {
	z.mu.Lock()
	defer z.mu.Unlock()
	p := z.children[pid]
	if p == nil {
		if len(z.early) < 1024 {
			z.early[pid] = s
		}
		return
	}
	delete(z.children, pid)
	p.end(s)
}

// fork asks for a worker. Its ends of the channels travel with the request.
func (z *zygote) fork(ctx context.Context, cmd Command, lines *lineLog) (*process, error) {
	p, theirs, err := newProcess(lines)
	if err != nil {
		return nil, err
	}
	abort := func(err error) (*process, error) {
		p.closeChannels()
		_ = p.output.Close()
		return nil, err
	}
	body, err := json.Marshal(ForkBody{Env: map[string]string{}, Cwd: cmd.Dir})
	if err != nil {
		closeFiles(theirs)
		return abort(err)
	}
	answer := make(chan forked, 1)
	z.mu.Lock()
	if z.ended {
		z.mu.Unlock()
		closeFiles(theirs)
		return abort(errZygoteEnded)
	}
	z.lastID++
	id := z.lastID
	frame, err := AppendFrame(nil, KindFork, 0, id, body)
	if err == nil {
		err = sendFiles(z.proc.ch.Descriptors, theirs...)
	}
	if err == nil {
		_, err = z.proc.ch.Control.Write(frame)
	}
	if err == nil {
		z.forks[id] = answer
	}
	z.mu.Unlock()
	closeFiles(theirs)
	if err != nil {
		return abort(fmt.Errorf("%w: %w", errZygoteEnded, err))
	}
	var f forked
	select {
	case f = <-answer:
	case <-ctx.Done():
		// A child that comes after all finds its channels closed and ends.
		return abort(ctx.Err())
	}
	if f.err != nil {
		return abort(f.err)
	}
	p.pid = int(f.pid)
	p.signal = groupSignal(p)
	z.mu.Lock()
	if s, ok := z.early[f.pid]; ok {
		delete(z.early, f.pid)
		p.end(s)
	} else if z.ended {
		p.end(exitStatus{})
	} else {
		z.children[f.pid] = p
	}
	z.mu.Unlock()
	go p.copyOutput() // ends with the pipe, at the latest in drain, which waits for it
	return p, nil
}

// close ends the zygote; its children go on.
func (z *zygote) close() {
	z.proc.closeChannels()
	z.wg.Wait()
	if !z.proc.await(2 * time.Second) {
		z.proc.kill()
		z.proc.await(2 * time.Second)
	}
}

func (p *process) closeChannels() {
	_ = p.ch.Control.Close()
	_ = p.ch.Descriptors.Close()
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// newProcess makes the channels of a worker and returns its ends of them:
// control, descriptors, output.
func newProcess(lines *lineLog) (p *process, theirs []*os.File, err error) {
	control, theirControl, err := socketPair("control")
	if err != nil {
		return nil, nil, err
	}
	descriptors, theirDescriptors, err := socketPair("descriptors")
	if err != nil {
		closeFiles([]*os.File{control, theirControl})
		return nil, nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		closeFiles([]*os.File{control, theirControl, descriptors, theirDescriptors})
		return nil, nil, err
	}
	p = &process{
		ch: Channels{Control: control, Descriptors: descriptors}, output: r,
		exited: make(chan struct{}), read: make(chan struct{}), lines: lines,
	}
	return p, []*os.File{theirControl, theirDescriptors, w}, nil
}
