//go:build unix

package bound

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/backendtest"
	"github.com/nesoserve/neso/backend/internal/librarytest"
	"github.com/nesoserve/neso/tensor"
)

// order says which callable the process binds; see testdata/suite.py.
type order struct {
	Callable  string `json:"callable"`
	Datatype  string `json:"datatype"`
	Batch     int    `json:"batch"`
	Decoupled bool   `json:"decoupled"`
	Whole     bool   `json:"whole"`
	URL       string `json:"url"`
}

// program is the process, one for all models.
type program struct {
	in   io.WriteCloser
	out  *bufio.Reader
	said strings.Builder // its errors
}

func startProgram(t *testing.T) *program {
	t.Helper()
	python, err := librarytest.Interpreter()
	if err != nil {
		t.Skip(err)
	}
	p := &program{}
	cmd := exec.Command(python, filepath.Join("testdata", "suite.py"))
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join("..", "..", "python"))
	cmd.Stderr = &p.said
	if p.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.in.Close()
		_, _ = io.Copy(io.Discard, p.out)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the process: %v\n%s", err, p.said.String())
		}
	})
	return p
}

// tell sends a line and wants a word for an answer.
func (p *program) tell(line, want string) error {
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		return err
	}
	if got, err := p.out.ReadString('\n'); got != want+"\n" {
		return fmt.Errorf("the process said %q, %w", got, err)
	}
	return nil
}

// guest is a backend that has the process bind a callable for the model it loads,
// as guests of a server do: to a server that loads nothing by itself.
type guest struct {
	backend.Backend // what the process has bound, once there is a model
	host            backend.Host
	program         *program

	end sync.Once
	// stop ends the session; nil without a model.
	stop func() error
}

func (g *guest) Load(ctx context.Context, cfg backend.Config) (backend.Model, error) {
	srv := &keeper{host: g.host, bound: map[string]kept{}}
	l, err := Listen(Options{Server: srv})
	if err != nil {
		return nil, err
	}
	tickets := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		socket, token, _ := l.Ticket()
		_ = json.NewEncoder(w).Encode(map[string]string{"socket": socket, "token": token})
	}))
	defer tickets.Close()
	var o order
	if err := json.Unmarshal([]byte(cfg.Parameters["order"]), &o); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	o.URL = tickets.URL
	line, _ := json.Marshal(o)
	if err := g.program.tell(string(line), "bound"); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	g.stop = func() error { return errors.Join(g.program.tell("", "ended"), l.Close()) }
	k := srv.get("model")
	g.Backend, cfg.JSON = k.backend, k.config
	return k.backend.Load(ctx, cfg)
}

// Close is that of a backend without a model, too.
func (g *guest) Close() (err error) {
	g.end.Do(func() {
		if g.Backend != nil {
			err = g.Backend.Close()
		}
		if g.stop != nil {
			err = errors.Join(err, g.stop())
		}
	})
	return err
}

// keeper is a server that keeps what is bound and does not load it.
type keeper struct {
	host  backend.Host
	mu    sync.Mutex
	bound map[string]kept
}

type kept struct {
	backend backend.Backend
	config  []byte
}

func (k *keeper) BindBackend(_ context.Context, name string, _ int64, config []byte, b backend.Backend) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.bound[name] = kept{b, config}
	return config, nil
}

func (k *keeper) UnbindBackend(context.Context, string, int64, backend.Backend) error { return nil }
func (k *keeper) Host() backend.Host                                                  { return k.host }
func (k *keeper) Addresses() map[string]string                                        { return nil }
func (k *keeper) Rollout(string) ([]byte, error)                                      { return nil, nil }
func (k *keeper) SetRollout(context.Context, string, []byte) error                    { return nil }

func (k *keeper) get(name string) kept {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.bound[name]
}

// TestSuite runs the suite with callables of a Python process: those that take a
// list of requests, and those that take the arrays of a whole batch.
func TestSuite(t *testing.T) {
	p := startProgram(t)
	for _, whole := range []bool{false, true} {
		name := "requests"
		if whole {
			name = "batch"
		}
		t.Run(name, func(t *testing.T) {
			model := func(t *testing.T, o order) backend.Config {
				t.Helper()
				o.Whole = whole
				text, err := json.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				io := backend.IO{Datatype: tensor.LookupDatatype(o.Datatype), Dims: tensor.Shape{-1}}
				in, out := io, io
				in.Name, out.Name = "IN", "OUT"
				return backend.Config{
					MaxBatchSize: o.Batch, Decoupled: o.Decoupled, Inputs: []backend.IO{in}, Outputs: []backend.IO{out},
					Parameters: map[string]string{"order": string(text)},
				}
			}
			suite := backendtest.Suite{
				Driver: backend.Driver{Name: "bound", Open: func(_ context.Context, h backend.Host, _ backend.Settings) (backend.Backend, error) {
					return &guest{host: h, program: p}, nil
				}},
				Identity: func(t *testing.T, d tensor.Datatype, batch int) backend.Config {
					switch {
					case whole && batch == 0:
						t.Skip("a callable of whole batches batches")
					case !slices.Contains([]tensor.Datatype{tensor.Bool, tensor.Int32, tensor.Int64, tensor.FP16, tensor.FP32, tensor.Bytes}, d):
						t.Skip("the tests of the Python package have the others")
					}
					return model(t, order{Callable: "identity", Datatype: d.String(), Batch: batch})
				},
				FailingBatch: func(t *testing.T) backend.Config {
					return model(t, order{Callable: "failing", Datatype: "INT32", Batch: 8})
				},
				Calling: func(t *testing.T) backend.Config {
					return model(t, order{Callable: "calling", Datatype: "INT32", Batch: 8})
				},
				Broken: func(t *testing.T) backend.Config {
					cfg := model(t, order{Callable: "identity", Datatype: "INT32", Batch: 8})
					cfg.MaxBatchSize = 0 // bound with another kind of batching
					return cfg
				},
			}
			if !whole {
				suite.Decoupled = func(t *testing.T, n int) (backend.Config, []tensor.Tensor) {
					data, err := tensor.New("IN", tensor.Shape{1}, []int32{int32(n)})
					if err != nil {
						t.Fatal(err)
					}
					return model(t, order{Callable: "decoupled", Datatype: "INT32", Decoupled: true}), []tensor.Tensor{data}
				}
			}
			backendtest.Run(t, suite)
		})
	}
}
