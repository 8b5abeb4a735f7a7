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
	wait time.Duration // for one fork: the constant, but in tests
	wg   sync.WaitGroup

	mu       sync.Mutex // guards the channels too: a FORK and its descriptors go together
	ended    bool
	lastID   uint64
	forks    map[uint64]*pendingFork
	children map[uint32]*process
	hello    chan struct{}
}

// pendingFork is a FORK that is not answered yet.
type pendingFork struct {
	proc   *process   // gets its number when FORKED comes, before EXITED can
	answer chan error // takes one
}

// forkWait bounds how long a fork may take, far above any real one: a zygote
// that does not answer is replaced.
const forkWait = 15 * time.Second

// startZygote starts a zygote and waits for its HELLO, until ctx ends. lines
// takes its output.
func (l *Launcher) startZygote(ctx context.Context, cmd Command, lines *lineLog) (*zygote, error) {
	direct := cmd
	direct.Args, direct.Zygote, direct.Dir, direct.Limits = cmd.Zygote, nil, "", Limits{}
	p, err := l.spawn(direct, lines)
	if err != nil {
		return nil, err
	}
	z := &zygote{proc: p, wait: forkWait, forks: map[uint64]*pendingFork{}, children: map[uint32]*process{}, hello: make(chan struct{})}
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
		err = fmt.Errorf("%s did not start: %v", cmd.Path, withOutput(p.status.String(), lines))
	case <-ctx.Done():
		err = lateZygote(cmd, ctx.Err(), lines)
	}
	p.kill()
	z.close()
	return nil, err
}

// lateZygote says that somebody has not waited for a zygote any longer.
func lateZygote(cmd Command, why error, lines *lineLog) error {
	return fmt.Errorf("%s did not start in time: %v", cmd.Path, withOutput(why.Error(), lines))
}

// withOutput adds the last lines of a process to what happened to it.
func withOutput(what string, lines *lineLog) string {
	last := lines.last()
	if last == "" {
		return what
	}
	return what + "; its last output:\n" + last
}

// read takes the zygote's frames until it ends.
func (z *zygote) read() {
	r := frameReader{src: z.proc.ch.Control, bounds: fromZygotes}
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
			z.answer(h.ID, pid, err)
		case KindFailed:
			var f FailedBody
			_ = json.Unmarshal(body, &f)
			z.answer(h.ID, 0, errors.New(f.Message))
		case KindExited:
			if pid, status, err := decodeExited(body); err == nil {
				z.exited(pid, waitStatus(status))
			}
		}
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.ended = true
	for id, fork := range z.forks {
		delete(z.forks, id)
		fork.answer <- errZygoteEnded
	}
	// How its children end nobody will learn any more.
	for pid, p := range z.children {
		delete(z.children, pid)
		p.end(exitStatus{})
	}
}

// answer notes a child, or why there is none. A fork that nobody waits for any
// more is forgotten: its child finds its channels closed and ends.
func (z *zygote) answer(id uint64, pid uint32, err error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	fork := z.forks[id]
	if fork == nil {
		return
	}
	delete(z.forks, id)
	if err == nil {
		if err = z.adopt(fork.proc, pid); err != nil {
			// Whatever speaks there, it is no zygote of ours any more.
			err = fmt.Errorf("the zygote reports a process that is none of its own: %w", err)
			z.proc.kill()
		}
	}
	fork.answer <- err
}

// adopt takes a process that the zygote reports. The zygote runs as the workers'
// user, perhaps in an interpreter of a model's: what it says is only taken for
// true where the kernel says the same.
func (z *zygote) adopt(p *process, pid uint32) error {
	if z.children[pid] != nil {
		return fmt.Errorf("process %d is reported twice", pid)
	}
	if err := p.vouched(z.proc.pid, int(pid)); err != nil {
		return err
	}
	z.children[pid] = p
	return nil
}

func (z *zygote) exited(pid uint32, s exitStatus) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if p := z.children[pid]; p != nil {
		delete(z.children, pid)
		p.end(s)
	}
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
	body, err := json.Marshal(ForkBody{Env: map[string]string{}, Cwd: cmd.Dir, Limits: cmd.Limits, Mark: p.tag})
	if err != nil {
		closeFiles(theirs)
		return abort(err)
	}
	fork := &pendingFork{proc: p, answer: make(chan error, 1)}
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
		_ = z.proc.ch.Control.SetWriteDeadline(time.Now().Add(z.wait))
		_, err = z.proc.ch.Control.Write(frame)
	}
	if err == nil {
		z.forks[id] = fork
	}
	z.mu.Unlock()
	closeFiles(theirs)
	if err != nil {
		return abort(fmt.Errorf("%w: %w", errZygoteEnded, err))
	}
	late := time.NewTimer(z.wait)
	defer late.Stop()
	select {
	case err = <-fork.answer:
	case <-ctx.Done():
		err = ctx.Err()
	case <-late.C:
		err = fmt.Errorf("%w: it has not forked within %v", errZygoteEnded, z.wait)
	}
	if err != nil {
		z.mu.Lock()
		delete(z.forks, id)
		z.mu.Unlock()
		return abort(err)
	}
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
	z.proc.release()
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
	blocking(w)
	p = &process{
		ch: Channels{Control: control, Descriptors: descriptors}, output: r, tag: newTag(),
		exited: make(chan struct{}), read: make(chan struct{}), lines: lines,
	}
	return p, []*os.File{theirControl, theirDescriptors, w}, nil
}
