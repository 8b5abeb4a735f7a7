//go:build unix

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nesoserve/neso/backend/internal/worker/linelog"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/internal/nesotest"
)

// zygoteCommand starts workers through a zygote. With a gate, which is the path
// of a new FIFO, the interpreter begins when that is opened for writing.
func zygoteCommand(t *testing.T, gate string) Command {
	t.Helper()
	entry, err := filepath.Abs("../../../../python/neso_worker")
	if err != nil {
		t.Fatal(err)
	}
	cmd := Command{Path: nesotest.Python(t), Args: []string{entry, "--worker"}, Zygote: []string{entry, "--zygote"}}
	if gate != "" {
		if err := unix.Mkfifo(gate, 0o600); err != nil {
			t.Fatal(err)
		}
		script := gate + ".sh"
		text := fmt.Sprintf("#!/bin/sh\nread line < %s\nexec %s \"$@\"\n", gate, cmd.Path)
		if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		cmd.Path = script
	}
	return cmd
}

// endWorker closes the server's ends of a worker's channels, once it has said HELLO,
// which ends it.
func endWorker(t *testing.T, p *Process) {
	t.Helper()
	r := wire.NewReader(p.ch.Descriptors, nil, nil)
	if h, _, err := r.Next(); err != nil || h.Kind != wire.KindHello {
		t.Errorf("got %v: %v", h, err)
	}
	r.Close()
	p.closeChannels()
	if !p.await(time.Minute) {
		t.Error("the worker goes on without a server")
		p.Kill()
		p.await(time.Second)
	}
	if p.status != (exitStatus{known: true}) {
		t.Errorf("the end: %+v", p.status)
	}
}

// TestFirstCallerGivesUp: who waits for a zygote that somebody else had started
// gets it, also when that one has been cancelled.
func TestFirstCallerGivesUp(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	l, cmd := &Launcher{}, zygoteCommand(t, gate)
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := l.Start(ctx, cmd, &linelog.Log{})
		first <- err
	}()
	open, err := os.OpenFile(gate, os.O_WRONLY, 0) // waits for the reader: the start is under way
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	var p *Process
	go func() {
		var err error
		p, err = l.Start(t.Context(), cmd, &linelog.Log{})
		second <- err
	}()
	for waiters := 0; waiters < 2; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		waiters = l.zygotes[cmd.key()].waiters
		l.mu.Unlock()
	}
	cancel()
	if err := <-first; err == nil || !strings.Contains(err.Error(), "did not start in time: context canceled") {
		t.Errorf("the cancelled start: %v", err)
	}
	_, err = open.WriteString("\n")
	if err = errors.Join(err, open.Close()); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	endWorker(t, p)
}

// TestStuckZygote: a zygote that does not fork is replaced, and forks that were
// given up leave nothing that a later child could be taken for.
func TestStuckZygote(t *testing.T) {
	l, cmd := &Launcher{}, zygoteCommand(t, "")
	defer l.Close()
	z, err := l.zygote(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for given := 0; given < 3; {
		if p, err := z.fork(gone, cmd, &linelog.Log{}); err == nil {
			endWorker(t, p) // the answer was there before anybody looked
		} else {
			given++
		}
	}
	p, err := l.Start(t.Context(), cmd, &linelog.Log{})
	if err != nil {
		t.Fatal(err)
	}
	endWorker(t, p)
	z.mu.Lock()
	if len(z.forks) > 0 {
		t.Errorf("%d forks are kept", len(z.forks))
	}
	z.mu.Unlock()
	if err := syscall.Kill(z.proc.pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	z.wait = 100 * time.Millisecond // its successor waits as long as ever
	p, err = l.Start(t.Context(), cmd, &linelog.Log{})
	if err != nil {
		t.Fatal(err)
	}
	endWorker(t, p)
	if !z.proc.await(time.Minute) {
		t.Error("the stuck zygote lives on")
	}
}

// forked is a process that has left the group of its zygote.
func forked(t *testing.T, z *zygote, cmd Command) *Process {
	t.Helper()
	p, err := z.fork(t.Context(), cmd, &linelog.Log{})
	if err != nil {
		t.Fatal(err)
	}
	r := wire.NewReader(p.ch.Descriptors, nil, nil)
	defer r.Close()
	if h, _, err := r.Next(); err != nil || h.Kind != wire.KindHello { // it says so once it has
		t.Errorf("got %v: %v", h, err)
	}
	return p
}

// TestForgedExit: a zygote that reports the end of a child that lives is ended, and
// the child is not taken for dead.
func TestForgedExit(t *testing.T) {
	if !canVouch() {
		t.Skip("no process descriptors here")
	}
	l, cmd := &Launcher{}, zygoteCommand(t, "")
	defer l.Close()
	z, err := l.zygote(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	p := forked(t, z, cmd)
	z.exited(uint32(p.pid), exitStatus{known: true, code: 7})
	if !z.proc.await(time.Minute) {
		t.Error("the zygote that lies lives on")
	}
	select {
	case <-p.exited:
		t.Errorf("a process that lives has ended: %v", p.status)
	default:
	}
	p.closeChannels()
	if !p.await(time.Minute) || p.status.known {
		t.Errorf("the end behind its zygote's: %+v", p.status)
	}
	p.Release()
}

// TestCloseWaitsForOrphans: what goes on with a worker whose zygote has ended is
// waited for.
func TestCloseWaitsForOrphans(t *testing.T) {
	if !canVouch() {
		t.Skip("no process descriptors here")
	}
	l, cmd := &Launcher{}, zygoteCommand(t, "")
	z, err := l.zygote(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	p := forked(t, z, cmd)
	z.proc.Kill()
	z.wg.Wait()
	p.closeChannels()
	l.Close()
	for what, c := range map[string]chan struct{}{"end": p.exited, "output": p.read, "watch": p.gone} {
		select {
		case <-c:
		default:
			t.Errorf("Close has not waited for the worker's %s", what)
		}
	}
	p.Release()
}

// TestServerDeath closes the server's ends of the channels, as its death does:
// workers end by themselves, with and without a zygote.
func TestServerDeath(t *testing.T) {
	entry, err := filepath.Abs("../../../../python/neso_worker")
	if err != nil {
		t.Fatal(err)
	}
	for _, zygote := range [][]string{nil, {entry, "--zygote"}} {
		l := &Launcher{}
		p, err := l.Start(t.Context(), Command{Path: nesotest.Python(t), Args: []string{entry, "--worker"}, Zygote: zygote}, &linelog.Log{})
		if err != nil {
			t.Fatal(err)
		}
		endWorker(t, p)
		l.Close()
		if _, err := l.Start(t.Context(), Command{Path: "python3", Zygote: zygote}, &linelog.Log{}); err == nil {
			t.Error("a closed launcher starts workers")
		}
	}
}
