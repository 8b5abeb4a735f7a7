//go:build cgo

package native

// #include "loader.h"
import "C"

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/native/host"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/object"
	"github.com/nesoserve/neso/tensor"
)

// response is a TRITONBACKEND_Response: from its making until it is sent or deleted.
type response struct {
	handle     handle.Handle
	request    *request
	outputs    []*output
	parameters []backend.Parameter

	// room for one output, and the answer: most responses have no more.
	first  output
	list   [1]*output
	answer host.Answer
	sent   [1]host.Output
}

// factory is a TRITONBACKEND_ResponseFactory.
type factory struct {
	handle  handle.Handle
	request *request
}

var (
	responses = handle.NewTable[response](kindResponse)
	factories = handle.NewTable[factory](kindFactory)
)

// sendFinal is the flag of the last response.
const sendFinal = 1

func responseOf(h C.uintptr_t, f func(p *response) C.uintptr_t) C.uintptr_t {
	p := responses.Get(handle.Handle(h))
	if p == nil {
		return stale("the response")
	}
	return f(p)
}

func factoryOf(h C.uintptr_t, f func(f *factory) C.uintptr_t) C.uintptr_t {
	of := factories.Get(handle.Handle(h))
	if of == nil {
		return stale("the response factory")
	}
	return f(of)
}

func (r *request) respond(to C.uintptr_t) C.uintptr_t {
	if r.lookedAt {
		return toRead()
	}
	p := &response{request: r}
	p.outputs = p.list[:0]
	p.handle = responses.New(p)
	if r.sender != nil {
		r.sender.BeginResponse()
	}
	r.mu.Lock()
	r.ways++
	r.mu.Unlock()
	put(to, p.handle)
	return 0
}

//export TRITONBACKEND_ResponseNew
func TRITONBACKEND_ResponseNew(to, h C.uintptr_t) C.uintptr_t {
	return requestOf(h, func(r *request) C.uintptr_t { return r.respond(to) })
}

//export TRITONBACKEND_ResponseNewFromFactory
func TRITONBACKEND_ResponseNewFromFactory(to, h C.uintptr_t) C.uintptr_t {
	return factoryOf(h, func(f *factory) C.uintptr_t { return f.request.respond(to) })
}

//export TRITONBACKEND_ResponseDelete
func TRITONBACKEND_ResponseDelete(h C.uintptr_t) C.uintptr_t {
	p := responses.Take(handle.Handle(h))
	if p == nil {
		return stale("the response")
	}
	p.free(true)
	p.request.left()
	return 0
}

// free ends the outputs of a response, with their memory if it was not sent.
func (p *response) free(memory bool) {
	for _, o := range p.outputs {
		if memory {
			o.block.Free()
		}
		o.free()
	}
}

//export TRITONBACKEND_ResponseSend
func TRITONBACKEND_ResponseSend(h C.uintptr_t, flags C.uint32_t, failure C.uintptr_t) C.uintptr_t {
	p := responses.Take(handle.Handle(h))
	if p == nil {
		return stale("the response")
	}
	r := p.request
	a := &p.answer
	a.Parameters, a.Err, a.Outputs = p.parameters, object.AsError(handle.Handle(failure)), p.sent[:0]
	if a.Err == nil {
		a.Err = p.outputsOf(a)
	}
	if a.Err != nil {
		a.Drop()
		for _, o := range p.outputs {
			o.block.Free()
		}
	}
	p.free(false)
	return r.send(a, flags)
}

// send hands an answer on, nil with the flag of the last one for the end without one.
func (r *request) send(a *host.Answer, flags C.uint32_t) C.uintptr_t {
	final := flags&sendFinal != 0
	r.mu.Lock()
	late := r.ended
	r.ended = r.ended || final
	r.mu.Unlock()
	if a != nil {
		defer r.left()
	}
	if late {
		if a != nil {
			a.Drop()
		}
		return result(r.instance.model.library.misuse("it answered a request that has had its final response"))
	}
	return result(r.of.Answer(a, final))
}

// outputsOf collects what the response holds, or says what is wrong with it.
func (p *response) outputsOf(a *host.Answer) *backend.Error {
	l := p.request.instance.model.library
	for _, o := range p.outputs {
		want, err := tensor.ByteSize(o.Datatype, o.Shape)
		if err != nil {
			return l.misuse("output '%s': %v", o.Name, err)
		}
		if o.block == nil {
			if want > 0 {
				return l.misuse("output '%s' of shape %s was sent without a buffer (TRITONBACKEND_OutputBuffer)", o.Name, o.Shape)
			}
			if o.block, err = p.request.instance.server.Allocate(0); err != nil {
				return backend.AsError(err)
			}
		}
		if o.block.Check() != nil {
			return l.misuse("it wrote beyond the %d bytes of output '%s'", len(o.block.Data()), o.Name)
		}
		o.Data, o.Buffer = o.block.Data(), o.block.Given()
		if o.Datatype == tensor.Bytes {
			if err := elements(o); err != nil {
				return l.misuse("output '%s': %v", o.Name, err)
			}
		} else if int64(o.size) != want {
			return l.misuse("output '%s' has %d bytes, its datatype %s and shape %s take %d", o.Name, o.size, o.Datatype, o.Shape, want)
		}
	}
	for _, o := range p.outputs {
		a.Outputs = append(a.Outputs, host.Output{Tensor: o.Tensor, Block: o.block})
	}
	p.request.mu.Lock()
	defer p.request.mu.Unlock()
	for _, s := range p.request.states {
		if s.updated && s.block != nil {
			s.Data = s.block.Data()
			a.Outputs = append(a.Outputs, host.Output{Tensor: s.Tensor, Block: s.block})
			s.block, s.updated = nil, false
		}
	}
	return nil
}

// elements checks that an output of strings holds as many as its shape says.
func elements(o *output) error {
	n, err := tensor.CountBytes(o.Data)
	if err != nil {
		return err
	}
	if want, err := o.Shape.Elements(); err != nil || int64(n) != want {
		return backend.Errorf(backend.Internal, "%d elements, its shape %s takes %d", n, o.Shape, want)
	}
	return nil
}

func parameterOf(h, name C.uintptr_t, p func(name string) backend.Parameter) C.uintptr_t {
	return responseOf(h, func(to *response) C.uintptr_t {
		to.parameters = append(to.parameters, p(object.String(uintptr(name))))
		return 0
	})
}

//export TRITONBACKEND_ResponseSetStringParameter
func TRITONBACKEND_ResponseSetStringParameter(h, name, value C.uintptr_t) C.uintptr_t {
	return parameterOf(h, name, func(n string) backend.Parameter { return backend.String(n, object.String(uintptr(value))) })
}

//export TRITONBACKEND_ResponseSetIntParameter
func TRITONBACKEND_ResponseSetIntParameter(h, name C.uintptr_t, value C.int64_t) C.uintptr_t {
	return parameterOf(h, name, func(n string) backend.Parameter { return backend.Int(n, int64(value)) })
}

//export TRITONBACKEND_ResponseSetBoolParameter
func TRITONBACKEND_ResponseSetBoolParameter(h, name C.uintptr_t, value C.uint8_t) C.uintptr_t {
	return parameterOf(h, name, func(n string) backend.Parameter { return backend.Bool(n, value != 0) })
}

//export TRITONBACKEND_ResponseSetDoubleParameter
func TRITONBACKEND_ResponseSetDoubleParameter(h, name C.uintptr_t, value C.double) C.uintptr_t {
	return parameterOf(h, name, func(n string) backend.Parameter { return backend.Double(n, float64(value)) })
}

//export TRITONBACKEND_ResponseFactoryNew
func TRITONBACKEND_ResponseFactoryNew(to, h C.uintptr_t) C.uintptr_t {
	return requestOf(h, func(r *request) C.uintptr_t {
		if r.lookedAt {
			return toRead()
		}
		f := &factory{request: r}
		f.handle = factories.New(f)
		r.mu.Lock()
		r.ways++
		r.mu.Unlock()
		put(to, f.handle)
		return 0
	})
}

//export TRITONBACKEND_ResponseFactoryDelete
func TRITONBACKEND_ResponseFactoryDelete(h C.uintptr_t) C.uintptr_t {
	f := factories.Take(handle.Handle(h))
	if f == nil {
		return stale("the response factory")
	}
	f.request.left()
	return 0
}

//export TRITONBACKEND_ResponseFactorySendFlags
func TRITONBACKEND_ResponseFactorySendFlags(h C.uintptr_t, flags C.uint32_t) C.uintptr_t {
	return factoryOf(h, func(f *factory) C.uintptr_t { return f.request.send(nil, flags) })
}

//export TRITONBACKEND_ResponseFactoryIsCancelled
func TRITONBACKEND_ResponseFactoryIsCancelled(h, cancelled C.uintptr_t) C.uintptr_t {
	return factoryOf(h, func(f *factory) C.uintptr_t { put(cancelled, f.request.of.Cancelled()); return 0 })
}
