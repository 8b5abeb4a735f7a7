package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend/internal/worker/channel"
	"github.com/nesoserve/neso/backend/internal/worker/linelog"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

var errZygoteEnded = errors.New("the zygote has ended")

// zygote is a process that forks workers: it has imported what each of them
// needs. It reports how they end.
type zygote struct {
	proc *Process
	wait time.Duration // for one fork: the constant, but in tests
	wg   sync.WaitGroup
	// outlive is the launcher's: what goes on with the children when the zygote has
	// ended. They have ended when the launcher is closed.
	outlive *sync.WaitGroup

	mu       sync.Mutex // guards the channels too: a FORK and its descriptors go together
	ended    bool
	lastID   uint64
	forks    map[uint64]*pendingFork
	children map[uint32]*Process
	hello    chan struct{}
}

// pendingFork is a FORK that is not answered yet.
type pendingFork struct {
	proc   *Process   // gets its number when FORKED comes, before EXITED can
	answer chan error // takes one
}

// forkWait bounds how long a fork may take, far above any real one: a zygote
// that does not answer is replaced.
const forkWait = 15 * time.Second

// startZygote starts a zygote and waits for its HELLO, until ctx ends. lines
// takes its output.
func (l *Launcher) startZygote(ctx context.Context, cmd Command, lines *linelog.Log) (*zygote, error) {
	direct := cmd
	direct.Args, direct.Zygote, direct.Dir = cmd.Zygote, nil, ""
	p, err := l.spawn(direct, lines)
	if err != nil {
		return nil, err
	}
	z := &zygote{
		proc: p, wait: forkWait, outlive: &l.wg,
		forks: map[uint64]*pendingFork{}, children: map[uint32]*Process{}, hello: make(chan struct{}),
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
		err = fmt.Errorf("%s did not start: %v", cmd.Path, linelog.WithOutput(p.status.String(), lines))
	case <-ctx.Done():
		err = lateZygote(cmd, ctx.Err(), lines)
	}
	p.Kill()
	z.close()
	return nil, err
}

// lateZygote says that somebody has not waited for a zygote any longer.
func lateZygote(cmd Command, why error, lines *linelog.Log) error {
	return fmt.Errorf("%s did not start in time: %v", cmd.Path, linelog.WithOutput(why.Error(), lines))
}

// read takes the zygote's frames until it ends.
func (z *zygote) read() {
	r := wire.NewReader(z.proc.ch.Control, wire.FromZygotes, nil)
	defer r.Close()
	greeted := false
	for {
		h, body, err := r.Next()
		if err != nil {
			break
		}
		switch h.Kind { //nolint:exhaustive // a zygote sends no other kinds
		case wire.KindHello:
			if !greeted {
				greeted = true
				close(z.hello)
			}
		case wire.KindForked:
			pid, err := wire.DecodeForked(body)
			z.answer(h.ID, pid, err)
		case wire.KindFailed:
			var f wire.FailedBody
			_ = json.Unmarshal(body, &f)
			z.answer(h.ID, 0, errors.New(f.Message))
		case wire.KindExited:
			if pid, status, err := wire.DecodeExited(body); err == nil {
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
	// Its children live on. Of what they die nobody will learn any more.
	for pid, p := range z.children {
		delete(z.children, pid)
		if p.gone == nil {
			p.end(exitStatus{})
			continue
		}
		z.outlive.Go(func() { // ends with the process, or when it is released
			<-p.gone
			p.end(exitStatus{})
		})
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
			z.proc.Kill()
		}
	}
	fork.answer <- err
}

// adopt takes a process that the zygote reports. The zygote runs as the workers'
// user, perhaps in an interpreter of a model's: what it says is only taken for
// true where the kernel says the same.
func (z *zygote) adopt(p *Process, pid uint32) error {
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
	p := z.children[pid]
	switch {
	case p == nil:
	case p.over != nil && !p.over():
		z.proc.Kill() // whatever speaks there, it is no zygote of ours any more
	default:
		delete(z.children, pid)
		p.end(s)
	}
}

// fork asks for a worker. Its ends of the channels travel with the request.
func (z *zygote) fork(ctx context.Context, cmd Command, lines *linelog.Log) (*Process, error) {
	p, theirs, err := newProcess(lines)
	if err != nil {
		return nil, err
	}
	abort := func(err error) (*Process, error) {
		p.closeChannels()
		_ = p.output.Close()
		return nil, err
	}
	body, err := json.Marshal(wire.ForkBody{Env: map[string]string{}, Cwd: cmd.Dir, Mark: p.tag, Apart: cmd.apart()})
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
	frame, err := wire.AppendFrame(nil, wire.KindFork, 0, id, body)
	if err == nil {
		err = channel.SendFiles(z.proc.ch.Descriptors, theirs...)
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
		late := z.children[uint32(p.pid)] == p // it came after all, and finds its channels closed
		z.mu.Unlock()
		if late {
			z.outlive.Go(func() {
				<-p.exited
				p.Release()
			})
		}
		return abort(err)
	}
	z.outlive.Go(p.copyOutput) // ends with the pipe, at the latest in drain, which waits for it
	return p, nil
}

// close ends the zygote; its children go on.
func (z *zygote) close() {
	z.proc.closeChannels()
	z.wg.Wait()
	if !z.proc.await(2 * time.Second) {
		z.proc.Kill()
		z.proc.await(2 * time.Second)
	}
	z.proc.signal(signalKill) // what it has started and not told
	z.proc.Sweep()
	z.proc.Release()
}

func (p *Process) closeChannels() {
	_ = p.ch.Control.Close()
	_ = p.ch.Descriptors.Close()
	p.ch.Peer.Close()
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// newProcess makes the channels of a worker and returns its ends of them:
// control, descriptors, output.
func newProcess(lines *linelog.Log) (p *Process, theirs []*os.File, err error) {
	control, theirControl, err := channel.NewPair("control")
	if err != nil {
		return nil, nil, err
	}
	descriptors, theirDescriptors, err := channel.NewPair("descriptors")
	if err != nil {
		closeFiles([]*os.File{control, theirControl})
		return nil, nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		closeFiles([]*os.File{control, theirControl, descriptors, theirDescriptors})
		return nil, nil, err
	}
	channel.Blocking(w)
	p = &Process{
		ch: channel.Ends{Control: control, Descriptors: descriptors}, output: r, tag: newTag(),
		exited: make(chan struct{}), read: make(chan struct{}), lines: lines,
	}
	return p, []*os.File{theirControl, theirDescriptors, w}, nil
}
