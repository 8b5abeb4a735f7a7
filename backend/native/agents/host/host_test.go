package host

import (
	"encoding/json"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// tiny is an agent that keeps its loads.
type tiny struct {
	opened bool
	loads  map[uint32]bool
}

func (a *tiny) Open(*Open) error {
	a.opened = true
	return nil
}

func (a *tiny) Begin(number uint32, _ *Begin) error {
	if a.loads[number] {
		return backend.Errorf(backend.Internal, "load %d has begun", number)
	}
	a.loads[number] = true
	return nil
}

func (a *tiny) Act(number uint32, act *Act) (*Acted, error) {
	if !a.loads[number] || act.Action > uint8(backend.AgentUnloadComplete) {
		return nil, backend.Errorf(backend.Internal, "load %d has no action %d", number, act.Action)
	}
	return &Acted{Location: "/here"}, nil
}

func (a *tiny) End(number uint32) error {
	delete(a.loads, number)
	return nil
}

func (a *tiny) Exit() {}

// FuzzDispatch gives an agent frames of any content: they are calls, or errors.
func FuzzDispatch(f *testing.F) {
	f.Add(uint8(wire.KindLoad), uint32(0), []byte(`{"library":"/a.so","name":"a","preload":["b"],"verbose":true}`))
	f.Add(uint8(wire.KindInit), uint32(1), []byte(`{"parameters":[["a","b"]],"config":{"name":"m"},"location":"/m","scratch":"/s"}`))
	f.Add(uint8(wire.KindLoad), uint32(1), []byte(`{"action":4}`))
	f.Add(uint8(wire.KindLoad), uint32(1), []byte(`{"action":256}`))
	f.Add(uint8(wire.KindUnload), uint32(1), []byte(`{}`))
	f.Add(uint8(wire.KindExit), uint32(1), []byte(nil))
	f.Fuzz(func(t *testing.T, kind uint8, number uint32, body []byte) {
		a := &tiny{loads: map[uint32]bool{1: true}}
		answer, err := dispatch(a, wire.Kind(kind), number, body)
		if err != nil {
			if answer, ok := answer.(*Acted); ok && answer != nil {
				t.Errorf("an answer %v beside the error %v", answer, err)
			}
			return
		}
		if _, err := json.Marshal(answer); err != nil {
			t.Error(err)
		}
		if !a.opened && kind == uint8(wire.KindLoad) && number == 0 {
			t.Error("the library was not opened")
		}
	})
}
