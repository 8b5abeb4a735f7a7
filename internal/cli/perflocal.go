package cli

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/cli/modelpath"
	"github.com/nesoserve/neso/internal/perf"
	"github.com/nesoserve/neso/internal/perf/data"
	"github.com/nesoserve/neso/internal/perf/drive"
	"github.com/nesoserve/neso/internal/perf/wire"
	"github.com/nesoserve/neso/tensor"
)

// perfServer is a server in the process of the load generator, without a network.
type perfServer struct{ *neso.Server }

// servePerf starts one with a model of a repository, and those that it calls.
func servePerf(log io.Writer) func(ctx context.Context, repository, model string, with []string) (perf.Server, error) {
	return func(ctx context.Context, repository, model string, with []string) (perf.Server, error) {
		dir, err := modelpath.Directory(filepath.Join(repository, model))
		if err != nil {
			return nil, err
		}
		var names []string
		for _, name := range with {
			name, _, _ = strings.Cut(name, ":")
			names = append(names, name)
		}
		srv, err := modelpath.Load(ctx, dir, "", "", names, true, log)
		if err != nil {
			return nil, err
		}
		return perfServer{srv}, nil
	}
}

func (s perfServer) HTTP() http.RoundTripper { return handled{s.Handler()} }

// handled has a handler answer requests.
type handled struct{ http.Handler }

// answer is what a handler writes.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

func (h handled) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if r.RequestURI, r.RemoteAddr = r.URL.RequestURI(), "127.0.0.1:0"; r.Body == nil {
		r.Body = http.NoBody
	}
	a := &answer{header: http.Header{}}
	h.ServeHTTP(a, r)
	a.WriteHeader(http.StatusOK)
	return &http.Response{
		StatusCode: a.status, Status: http.StatusText(a.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: a.header,
		Body: io.NopCloser(&a.body), ContentLength: int64(a.body.Len()), Request: r,
	}, nil
}

// perfCalls makes the inference requests of one run.
type perfCalls struct {
	srv        *neso.Server
	call       *perf.LocalCall
	parameters []backend.Parameter
	inputs     sync.Map // *data.Step to its []tensor.Tensor, in buffers that need no copy
}

func (s perfServer) Call(call *perf.LocalCall) drive.Call {
	c := &perfCalls{srv: s.Server, call: call}
	for _, p := range call.Parameters {
		switch v := p.Value.(type) {
		case string:
			c.parameters = append(c.parameters, backend.String(p.Name, v))
		case int64:
			c.parameters = append(c.parameters, backend.Int(p.Name, v))
		case bool:
			c.parameters = append(c.parameters, backend.Bool(p.Name, v))
		}
	}
	return c.infer
}

func (c *perfCalls) tensors(step *data.Step) []tensor.Tensor {
	if known, ok := c.inputs.Load(step); ok {
		return known.([]tensor.Tensor) //nolint:forcetypeassert // Store has it
	}
	list := make([]tensor.Tensor, len(step.Inputs))
	for i, in := range step.Inputs {
		list[i] = tensor.Tensor{
			Name: in.Name, Datatype: in.Datatype, Shape: in.Shape, Data: in.Bytes, Buffer: tensor.NewBuffer(in.Bytes, nil),
		}
	}
	known, _ := c.inputs.LoadOrStore(step, list)
	return known.([]tensor.Tensor) //nolint:forcetypeassert // Store has it
}

func (c *perfCalls) infer(ctx context.Context, r *drive.Request, keep bool, yield func(body []byte)) error {
	q := neso.Request{Model: c.call.Model, Version: c.call.Version, Parameters: c.parameters, Inputs: c.tensors(r.Step)}
	if c.call.Sequence {
		q.Correlation.Number = r.ID
		if r.Start {
			q.Flags |= backend.SequenceStart
		}
		if r.End {
			q.Flags |= backend.SequenceEnd
		}
	}
	give := func(resp *backend.Response) {
		var body []byte
		if keep {
			body = wire.AppendResponse(nil, resp.Outputs)
		}
		resp.Release()
		yield(body)
	}
	if !c.call.Decoupled {
		resp, err := c.srv.Infer(ctx, q)
		if err != nil {
			return failure(err)
		}
		give(resp)
		return nil
	}
	var failed error
	err := c.srv.Stream(ctx, q, func(resp *backend.Response) bool {
		if resp.Err != nil {
			failed = failure(resp.Err)
			return false
		}
		give(resp)
		return true
	})
	if failed != nil {
		return failed
	}
	if err != nil {
		return failure(err)
	}
	return nil
}

func failure(err error) error {
	e := backend.AsError(err)
	return &drive.Failure{Kind: e.Code.String(), Text: e.Message}
}
