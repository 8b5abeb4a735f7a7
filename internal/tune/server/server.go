// Package server owns the servers that configurations are measured in: processes of
// this binary, on free ports, that are ended whatever happens. Open server.go first,
// then memory.go.
package server

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options say what a server serves.
type Options struct {
	Binary      string
	Args        []string // of the server, whose ports are free ones of the loopback
	Env         []string // NAME=VALUE, beside the environment of this process
	Log         io.Writer
	LoadTimeout time.Duration
	StopTimeout time.Duration
}

// Server is one that runs.
type Server struct {
	HTTP, GRPC, Metrics string // host:port
	PID                 int
	cmd                 *exec.Cmd
	ended               chan struct{} // closed when the process has been waited for
	stop                time.Duration
	log                 *tail
	client              http.Client
}

// Start starts a server and waits until its models are ready. The error of one that
// fails to load has what the server said of it.
func Start(ctx context.Context, o Options) (*Server, error) {
	s := &Server{ended: make(chan struct{}), stop: o.StopTimeout, log: newTail(o.Log)}
	s.cmd = exec.Command(o.Binary, o.Args...)
	s.cmd.Env = append(os.Environ(), o.Env...)
	s.client = http.Client{Timeout: askTime, Transport: &http.Transport{DisableKeepAlives: true}}
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.WaitDelay = time.Second // for its log, which workers hold open that outlive it
	apart(s.cmd)
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("the server cannot be started: %w", err)
	}
	s.PID = s.cmd.Process.Pid
	go func() { // ends with the process, which Close waits for
		_ = s.cmd.Wait() // why it ended stands in its log
		close(s.ended)
	}()
	limit, cancel := context.WithTimeout(ctx, o.LoadTimeout)
	defer cancel()
	if err := s.ready(limit); err != nil {
		s.Close()
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("not loaded within %v", o.LoadTimeout)
		}
		return nil, err
	}
	return s, nil
}

// askTime bounds a question whether a server is ready.
const askTime = 2 * time.Second

// look is how often a starting server is asked whether it is ready.
const look = 10 * time.Millisecond

// ready waits until all models are loaded.
func (s *Server) ready(ctx context.Context) error {
	t := time.NewTicker(look)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ended:
			return s.failure()
		case <-t.C:
		}
		if s.HTTP, s.GRPC, s.Metrics = s.log.addresses(); s.HTTP == "" || s.GRPC == "" || s.Metrics == "" {
			continue
		}
		if s.answers(ctx, "/v2/health/ready") {
			return nil
		}
	}
}

// endTime is how long a server that answers no more may take to be seen to have ended.
const endTime = 10 * time.Second

// Gone reports whether the server has ended. One that answers has not.
func (s *Server) Gone(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	if s.answers(ctx, "/v2/health/live") {
		return false
	}
	select {
	case <-s.ended:
		return true
	case <-ctx.Done():
		return false
	}
}

// answers reports whether the server answers a question with OK.
func (s *Server) answers(ctx context.Context, path string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.HTTP+path, http.NoBody)
	if err != nil {
		return false
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// Failure says why a process has ended that nobody stopped.
func (s *Server) Failure() error { return s.failure() }

func (s *Server) failure() error {
	text := s.log.failure()
	if state := s.cmd.ProcessState; text == "" && state != nil {
		text = "the server ended: " + state.String()
		if status, ok := state.Sys().(syscall.WaitStatus); ok && killed(status) {
			text += " (often for want of memory)"
		}
	}
	return errors.New(text)
}

// Close ends the server: it is asked to, and killed if it takes too long. It may be
// called twice.
func (s *Server) Close() {
	ask(s.cmd.Process)
	t := time.NewTimer(s.stop)
	defer t.Stop()
	select {
	case <-s.ended:
	case <-t.C:
		kill(s.cmd.Process)
		<-s.ended
	}
}

// tail keeps what a log says of addresses and of the end, and hands all of it on.
type tail struct {
	mu                  sync.Mutex
	out                 io.Writer
	rest                []byte
	http, grpc, metrics string
	failed              []string
	last                string // line with an error
}

func newTail(out io.Writer) *tail { return &tail{out: out} }

const (
	mostLines = 20
	longest   = 4096
)

var started = regexp.MustCompile(`Started (HTTPService|GRPCInferenceService|Metrics Service) at ([^"\s]+)`)

// Write takes a piece of the log.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.out != nil {
		_, _ = t.out.Write(p) // a full disk is no reason to end the server
	}
	t.rest = append(t.rest, p...)
	for {
		n, line, err := bufio.ScanLines(t.rest, false)
		if n == 0 || err != nil {
			break
		}
		t.line(string(line[:min(len(line), longest)]))
		t.rest = t.rest[n:]
	}
	if len(t.rest) > longest {
		t.rest = t.rest[len(t.rest)-longest:]
	}
	return len(p), nil
}

func (t *tail) line(line string) {
	if m := started.FindStringSubmatch(line); m != nil {
		to := map[string]*string{"HTTPService": &t.http, "GRPCInferenceService": &t.grpc}[m[1]]
		if to == nil {
			to = &t.metrics
		}
		*to = cmp.Or(*to, m[2]) // models print later, and may print anything
		return
	}
	if strings.HasPrefix(line, "error:") || len(t.failed) > 0 && strings.HasPrefix(line, " ") && len(t.failed) < mostLines {
		t.failed = append(t.failed, strings.TrimSpace(strings.TrimPrefix(line, "error:")))
	}
	if strings.HasPrefix(line, "E") && strings.Contains(line, "] ") {
		_, t.last, _ = strings.Cut(line, "] ")
	}
}

func (t *tail) addresses() (httpAddress, grpcAddress, metricsAddress string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.http, t.grpc, t.metrics
}

// failure is what the log says of why the server ended, the most telling part alone.
func (t *tail) failure() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.failed); n > 1 {
		return strings.Join(t.failed[1:], " ")
	} else if n == 1 {
		return t.failed[0]
	}
	return t.last
}
