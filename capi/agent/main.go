//go:build cgo

package agent

// #include <stdint.h>
//
// static uintptr_t neso_agent_call1(void* f, uintptr_t a) { return ((uintptr_t(*)(uintptr_t))f)(a); }
// static uintptr_t neso_agent_call2(void* f, uintptr_t a, uintptr_t b) {
//   return ((uintptr_t(*)(uintptr_t, uintptr_t))f)(a, b);
// }
// static uintptr_t neso_agent_act(void* f, uintptr_t a, uintptr_t b, int action) {
//   return ((uintptr_t(*)(uintptr_t, uintptr_t, int))f)(a, b, action);
// }
import "C"

import (
	"fmt"
	"os"
	"sync"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/native/agents/host"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/native"
	"github.com/nesoserve/neso/capi/object"
)

// library is the agent of this process: a TRITONREPOAGENT_Agent.
type library struct {
	server  *host.Server
	handle  handle.Handle
	ready   bool
	entries struct {
		initialize, finalize, modelInitialize, modelFinalize, modelAction unsafe.Pointer
	}
	models map[uint32]*model

	mu    sync.Mutex // agents may call from threads of their own
	state uintptr
}

// neso_agent_main is the program neso-host for a repository agent: it serves until the
// server says that it is enough, and returns the exit status.
//
//export neso_agent_main
func neso_agent_main() C.int {
	server, err := host.Connect()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	native.Catch()
	return C.int(server.Serve(&library{server: server, models: map[uint32]*model{}}))
}

// Open implements host.Agent.
func (l *library) Open(o *host.Open) error {
	if l.handle != 0 {
		return backend.Errorf(backend.Internal, "worker protocol: an agent was opened before")
	}
	native.LogTo(l.server, o.Verbose)
	native.Preload(o.Preload)
	e := &l.entries
	_, err := native.Link(o.Library, []native.Entry{
		{Name: "TRITONREPOAGENT_Initialize", To: &e.initialize},
		{Name: "TRITONREPOAGENT_Finalize", To: &e.finalize},
		{Name: "TRITONREPOAGENT_ModelInitialize", To: &e.modelInitialize},
		{Name: "TRITONREPOAGENT_ModelFinalize", To: &e.modelFinalize},
		{Name: "TRITONREPOAGENT_ModelAction", To: &e.modelAction, Required: true},
	})
	if err != nil {
		return err
	}
	l.handle = agents.New(l)
	if err := l.call(e.initialize); err != nil {
		return err
	}
	l.ready = true
	return nil
}

// call calls a function that takes the agent, if the library has it.
func (l *library) call(f unsafe.Pointer) error {
	if f == nil {
		return nil
	}
	return taken(C.neso_agent_call1(f, C.uintptr_t(l.handle)))
}

// taken returns the error that a library's function returned, which is ours then.
func taken(e C.uintptr_t) error { return object.Taken(handle.Handle(e)) }

// Begin implements host.Agent. What an agent has begun with an error it is told the
// end of all the same, as the peer does.
func (l *library) Begin(number uint32, b *host.Begin) error {
	if !l.ready || l.models[number] != nil {
		return backend.Errorf(backend.Internal, "worker protocol: the agent has not been opened, or knows the model")
	}
	m := newModel(l, b)
	if err := l.callModel(l.entries.modelInitialize, m); err != nil {
		_ = m.end() // the first error says more
		return err
	}
	l.models[number] = m
	return nil
}

func (l *library) callModel(f unsafe.Pointer, m *model) error {
	if f == nil {
		return nil
	}
	return taken(C.neso_agent_call2(f, C.uintptr_t(l.handle), C.uintptr_t(m.handle)))
}

// Act implements host.Agent.
func (l *library) Act(number uint32, a *host.Act) (*host.Acted, error) {
	m := l.models[number]
	if m == nil || a.Action > uint8(backend.AgentUnloadComplete) {
		return nil, backend.Errorf(backend.Internal, "worker protocol: model %d, action %d: there is none", number, a.Action)
	}
	m.begin(backend.AgentAction(a.Action))
	if err := taken(C.neso_agent_act(l.entries.modelAction, C.uintptr_t(l.handle), C.uintptr_t(m.handle), C.int(a.Action))); err != nil {
		return nil, err
	}
	return &host.Acted{Location: m.moved()}, nil
}

// End implements host.Agent.
func (l *library) End(number uint32) error {
	m := l.models[number]
	delete(l.models, number)
	if m == nil {
		return nil
	}
	return m.end()
}

// Exit implements host.Agent.
func (l *library) Exit() {
	for number := range l.models {
		_ = l.End(number) // the server has said why it does not wait for them
	}
	if !l.ready {
		return
	}
	if err := l.call(l.entries.finalize); err != nil {
		fmt.Fprintln(os.Stderr, "TRITONREPOAGENT_Finalize:", err)
	}
	agents.Take(l.handle)
}
