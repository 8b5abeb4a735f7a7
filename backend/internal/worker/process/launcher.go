package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/limits"
	"github.com/nesoserve/neso/backend/internal/worker/linelog"
	"github.com/nesoserve/neso/backend/internal/worker/near"
)

// Command says how to start a worker.
type Command struct {
	// Path is the executable, Args its arguments, Env its whole environment.
	Path string
	Args []string
	Env  []string
	Dir  string
	// User is who the worker runs as; nil means the server's user.
	User *User
	// Limits bound the worker, and the zygote that it is forked from.
	Limits limits.Limits
	// HostPolicy says where the worker is to run; nil for anywhere. It takes Confine.
	HostPolicy *backend.HostPolicy
	// Confine is a program, with its arguments, that calls Confine. It starts workers of
	// another user, workers with limits and workers with a HostPolicy, so that these are
	// confined from their first moment on. Where it is nil, the server sets the limits
	// as soon as a worker runs, which takes CAP_SYS_RESOURCE for another user.
	Confine []string
	// Zygote, when not nil, are the arguments with which the same executable
	// becomes a zygote that forks workers.
	Zygote []string
	// Here, when not nil, is the worker itself, in the server's process: it speaks over
	// its ends of the channels, and returns when it has ended. All of the above has no
	// meaning then. Near is what it shares with the server beside the channels.
	Here func(control, descriptors *os.File, beside *near.Near)
	Near *near.Near
}

// Confiner returns the Command.Confine of a neso command, nil for "".
func Confiner(binary string) []string {
	if binary == "" {
		return nil
	}
	return []string{binary, "confine"}
}

// key names the zygote that can fork workers for the command.
func (c *Command) key() string {
	parts := append([]string{c.Path, fmt.Sprint(c.Limits)}, c.Zygote...)
	if c.User != nil {
		parts = append(parts, c.User.Name)
	}
	return strings.Join(append(append(parts, ""), c.Env...), "\x00")
}

// Launcher starts worker processes, through zygotes where the command has one.
type Launcher struct {
	// Logger takes what zygotes print.
	Logger *slog.Logger

	mu      sync.Mutex
	zygotes map[string]*zygoteEntry
	closed  bool
	// stop ends the zygotes that are being started; life is nil before the first.
	life context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup
}

// zygoteEntry is a zygote that is being started or runs.
type zygoteEntry struct {
	ready chan struct{} // closed when z or err is set
	z     *zygote
	err   error
	lines *linelog.Log // what it prints
	// Guarded by the launcher's mu.
	waiters int // who wait for ready
	cancel  context.CancelFunc
}

// started reports whether the zygote runs, or has failed.
func (e *zygoteEntry) started() bool {
	select {
	case <-e.ready:
		return true
	default:
		return false
	}
}

// zygoteWait bounds the start of a zygote. Whoever waits for it may give up
// before; it is ended with the last of them.
const zygoteWait = 5 * time.Minute

var errLauncherClosed = errors.New("no more workers are started: the server is stopping")

// Start starts one worker. lines takes its output.
func (l *Launcher) Start(ctx context.Context, cmd Command, lines *linelog.Log) (*Process, error) {
	if cmd.Here != nil {
		return l.here(cmd, lines)
	}
	if cmd.Zygote == nil || !canVouch() {
		return l.spawn(cmd, lines)
	}
	for {
		z, err := l.zygote(ctx, cmd)
		if err != nil {
			return nil, err
		}
		p, err := z.fork(ctx, cmd, lines)
		if !errors.Is(err, errZygoteEnded) {
			return p, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		l.forget(cmd.key(), z) // it died; the next one is fresh
	}
}

// zygote returns the zygote for the command, starting it if need be.
func (l *Launcher) zygote(ctx context.Context, cmd Command) (*zygote, error) {
	key := cmd.key()
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, errLauncherClosed
	}
	e := l.zygotes[key]
	if e == nil {
		e = &zygoteEntry{ready: make(chan struct{}), lines: linelog.New(l.Logger)}
		if l.zygotes == nil {
			l.zygotes = map[string]*zygoteEntry{}
			l.life, l.stop = context.WithCancel(context.Background())
		}
		l.zygotes[key] = e
		// Not under the context of the caller: others may wait for the same one.
		var starting context.Context
		starting, e.cancel = context.WithTimeout(l.life, zygoteWait)
		l.wg.Go(func() { l.prepare(starting, key, cmd, e) })
	}
	e.waiters++
	l.mu.Unlock()
	select {
	case <-e.ready:
		return e.z, e.err
	case <-ctx.Done():
	}
	l.mu.Lock()
	e.waiters--
	last := e.waiters == 0 && l.zygotes[key] == e && !e.started()
	if last { // nobody needs it, and it may hang
		delete(l.zygotes, key)
		e.cancel()
	}
	l.mu.Unlock()
	if last {
		<-e.ready
		if e.z != nil { // it came after all
			e.z.close()
		}
	}
	return nil, lateZygote(cmd, ctx.Err(), e.lines)
}

// prepare starts the zygote of an entry; one that fails is forgotten.
func (l *Launcher) prepare(starting context.Context, key string, cmd Command, e *zygoteEntry) {
	defer close(e.ready)
	defer e.cancel()
	e.z, e.err = l.startZygote(starting, cmd, e.lines)
	if e.err == nil {
		return
	}
	l.mu.Lock()
	if l.zygotes[key] == e {
		delete(l.zygotes, key)
	}
	l.mu.Unlock()
}

func (l *Launcher) forget(key string, z *zygote) {
	l.mu.Lock()
	if e := l.zygotes[key]; e != nil && e.started() && e.z == z { // else it is the next one already
		delete(l.zygotes, key)
	}
	l.mu.Unlock()
	z.close()
}

// Close ends the zygotes, after all workers have ended.
func (l *Launcher) Close() {
	l.mu.Lock()
	l.closed = true
	entries := l.zygotes
	l.zygotes = nil
	if l.stop != nil {
		l.stop()
	}
	l.mu.Unlock()
	for _, e := range entries {
		<-e.ready
		if e.z != nil {
			e.z.close()
		}
	}
	l.wg.Wait()
}
