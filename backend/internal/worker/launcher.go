package worker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
)

// Command says how to start a worker.
type Command struct {
	// Path is the executable, Args its arguments, Env its whole environment.
	Path string
	Args []string
	Env  []string
	Dir  string
	// Zygote, when not nil, are the arguments with which the same executable
	// becomes a zygote that forks workers.
	Zygote []string
}

// key names the zygote that can fork workers for the command.
func (c *Command) key() string {
	parts := append([]string{c.Path}, c.Zygote...)
	return strings.Join(append(append(parts, ""), c.Env...), "\x00")
}

// Launcher starts worker processes, through zygotes where the command has one.
type Launcher struct {
	// Logger takes what zygotes print.
	Logger *slog.Logger

	mu      sync.Mutex
	zygotes map[string]*zygoteEntry
	closed  bool
	wg      sync.WaitGroup
}

// zygoteEntry is a zygote that is being started or runs.
type zygoteEntry struct {
	ready chan struct{} // closed when z or err is set
	z     *zygote
	err   error
}

var errLauncherClosed = errors.New("no more workers are started: the server is stopping")

// start starts one worker. lines takes its output.
func (l *Launcher) start(ctx context.Context, cmd Command, lines *lineLog) (*process, error) {
	if cmd.Zygote == nil {
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
		e = &zygoteEntry{ready: make(chan struct{})}
		if l.zygotes == nil {
			l.zygotes = map[string]*zygoteEntry{}
		}
		l.zygotes[key] = e
		l.mu.Unlock()
		e.z, e.err = l.startZygote(ctx, cmd)
		if e.err != nil {
			l.mu.Lock()
			delete(l.zygotes, key)
			l.mu.Unlock()
		}
		close(e.ready)
		return e.z, e.err
	}
	l.mu.Unlock()
	select {
	case <-e.ready:
		return e.z, e.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *Launcher) forget(key string, z *zygote) {
	l.mu.Lock()
	if e := l.zygotes[key]; e != nil && e.z == z {
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
	l.mu.Unlock()
	for _, e := range entries {
		<-e.ready
		if e.z != nil {
			e.z.close()
		}
	}
	l.wg.Wait()
}
