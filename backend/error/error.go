// Package error is a backend that fails, for tests. Model parameters:
//
//	code           UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE,
//	               UNSUPPORTED, ALREADY_EXISTS or CANCELLED; default INTERNAL
//	message        the text; default "error backend"
//	at             load, instance, warmup (the first execution of each instance)
//	               or execute; default execute
//	how            at execute: respond (each request is answered with the error),
//	               return (Execute returns it), panic, silent (no answer);
//	               default respond
//	only_negative  true: only requests whose first input, an INT32, begins with a
//	               negative element fail; with how=respond the others are answered
//
// Requests that do not fail are answered with their inputs, in order.
package error

import (
	"context"
	"encoding/binary"
	"strings"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// New returns the driver.
func New() backend.Driver {
	return backend.Driver{
		Name: "error", Parameters: []string{"code", "message", "at", "how", "only_negative"}, Settings: []string{},
		CheckParameter: checkParameter, Open: func(context.Context, backend.Host, backend.Settings) (backend.Backend, error) {
			return failing{}, nil
		},
	}
}

type failing struct{}

func (failing) Capabilities() backend.Capabilities { return backend.Capabilities{Kind: "KIND_CPU"} }

func (failing) Complete(context.Context, backend.Config) ([]byte, error) { return nil, nil }

func (failing) Close() error { return nil }

var codes = map[string]backend.Code{
	"UNKNOWN": backend.Unknown, "INTERNAL": backend.Internal, "NOT_FOUND": backend.NotFound, "INVALID_ARG": backend.InvalidArg,
	"UNAVAILABLE": backend.Unavailable, "UNSUPPORTED": backend.Unsupported, "ALREADY_EXISTS": backend.AlreadyExists,
	"CANCELLED": backend.Cancelled,
}

// checkParameter is backend.Driver.CheckParameter.
func checkParameter(cfg *backend.Config, name string) error {
	if name != "code" {
		return nil
	}
	_, err := codeOf(cfg)
	return err
}

func codeOf(cfg *backend.Config) (backend.Code, error) {
	text, ok := cfg.Parameters["code"]
	if !ok {
		return backend.Internal, nil
	}
	code, ok := codes[strings.ToUpper(text)]
	if !ok {
		return backend.Internal, backend.Errorf(backend.InvalidArg, "model '%s' has an unknown code '%s'", cfg.Name, text)
	}
	return code, nil
}

func (failing) Load(_ context.Context, cfg backend.Config) (backend.Model, error) {
	value := func(name, otherwise string) string {
		if v, ok := cfg.Parameters[name]; ok {
			return v
		}
		return otherwise
	}
	code, err := codeOf(&cfg)
	if err != nil {
		return nil, err
	}
	m := &model{
		err: &backend.Error{Code: code, Message: value("message", "error backend")},
		at:  value("at", "execute"), how: value("how", "respond"), negative: value("only_negative", "false") == "true",
		inputs: cfg.Inputs, outputs: cfg.Outputs,
	}
	if m.at == "load" {
		return nil, m.err
	}
	return m, nil
}

type model struct {
	err             *backend.Error
	at, how         string
	negative        bool
	inputs, outputs []backend.IO
}

func (*model) Allocator() tensor.Allocator { return nil }
func (*model) Ready() error                { return nil }
func (*model) Close() error                { return nil }

func (m *model) NewInstance(context.Context, backend.InstanceConfig) (backend.Instance, error) {
	if m.at == "instance" {
		return nil, m.err
	}
	return &instance{model: m}, nil
}

type instance struct {
	*model
	executions atomic.Int64
}

func (in *instance) Close() error { return nil }

// Execute fails as the parameters say.
func (in *instance) Execute(_ context.Context, b *backend.Batch) error {
	active := in.at == "execute" || in.at == "warmup" && in.executions.Add(1) == 1
	for _, r := range b.Requests {
		if !active || in.negative && !negative(r) {
			_ = r.Respond(in.answer(r), true)
			continue
		}
		switch in.how {
		case "return":
			return in.err
		case "panic":
			panic(in.err.Message)
		case "silent":
		default:
			err := *in.err
			_ = r.Respond(&backend.Response{Err: &err}, true)
		}
	}
	return nil
}

func negative(r *backend.Request) bool {
	return len(r.Inputs) > 0 && r.Inputs[0].Datatype == tensor.Int32 && len(r.Inputs[0].Data) >= 4 &&
		int32(binary.LittleEndian.Uint32(r.Inputs[0].Data)) < 0
}

func (in *instance) answer(r *backend.Request) *backend.Response {
	resp := &backend.Response{}
	for i, out := range in.outputs {
		if i >= len(in.inputs) || !r.Wants(out.Name) {
			continue
		}
		if t := r.Input(in.inputs[i].Name); t != nil {
			o := *t
			o.Name = out.Name
			o.Retain()
			resp.Outputs = append(resp.Outputs, o)
		}
	}
	return resp
}
