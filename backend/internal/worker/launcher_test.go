//go:build unix

package worker

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
)

// zygoteCommand starts workers through a zygote. With a gate, which is the path
// of a new FIFO, the interpreter begins when that is opened for writing.
func zygoteCommand(t *testing.T, gate string) Command {
	t.Helper()
	entry, err := filepath.Abs("../../../python/neso_worker")
	if err != nil {
		t.Fatal(err)
	}
	cmd := Command{Path: testPython(t), Args: []string{entry, "--worker"}, Zygote: []string{entry, "--zygote"}}
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

func endWorker(t *testing.T, p *process) {
	t.Helper()
	r := frameReader{src: p.ch.Descriptors}
	if h, _, err := r.next(); err != nil || h.Kind != KindHello {
		t.Errorf("got %v: %v", h, err)
	}
	r.close()
	p.closeChannels()
	if !p.await(time.Minute) {
		t.Error("the worker goes on")
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
		_, err := l.start(ctx, cmd, &lineLog{})
		first <- err
	}()
	open, err := os.OpenFile(gate, os.O_WRONLY, 0) // waits for the reader: the start is under way
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	var p *process
	go func() {
		var err error
		p, err = l.start(t.Context(), cmd, &lineLog{})
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
		if p, err := z.fork(gone, cmd, &lineLog{}); err == nil {
			endWorker(t, p) // the answer was there before anybody looked
		} else {
			given++
		}
	}
	p, err := l.start(t.Context(), cmd, &lineLog{})
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
	p, err = l.start(t.Context(), cmd, &lineLog{})
	if err != nil {
		t.Fatal(err)
	}
	endWorker(t, p)
	if !z.proc.await(time.Minute) {
		t.Error("the stuck zygote lives on")
	}
}

// TestServerDeath closes the server's ends of the channels, as its death does:
// workers end by themselves, with and without a zygote.
func TestServerDeath(t *testing.T) {
	entry, err := filepath.Abs("../../../python/neso_worker")
	if err != nil {
		t.Fatal(err)
	}
	for _, zygote := range [][]string{nil, {entry, "--zygote"}} {
		l := &Launcher{}
		p, err := l.start(t.Context(), Command{Path: testPython(t), Args: []string{entry, "--worker"}, Zygote: zygote}, &lineLog{})
		if err != nil {
			t.Fatal(err)
		}
		r := frameReader{src: p.ch.Descriptors}
		if h, _, err := r.next(); err != nil || h.Kind != KindHello {
			t.Errorf("got %v: %v", h, err)
		}
		r.close()
		p.closeChannels()
		if !p.await(time.Minute) {
			t.Error("the worker goes on without a server")
			p.kill()
			p.await(time.Second)
		}
		if p.status != (exitStatus{known: true}) {
			t.Errorf("the end: %+v", p.status)
		}
		l.Close()
		if _, err := l.start(t.Context(), Command{Path: "python3", Zygote: zygote}, &lineLog{}); err == nil {
			t.Error("a closed launcher starts workers")
		}
	}
}
