package backendtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/backendtest"
	"github.com/nesoserve/neso/backend/identity"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

func config(d tensor.Datatype, batch int) backend.Config {
	io := func(name string) []backend.IO {
		return []backend.IO{{Name: name, Datatype: d, Dims: tensor.Shape{-1}}}
	}
	return backend.Config{MaxBatchSize: batch, Inputs: io("IN"), Outputs: io("OUT")}
}

// TestDelaysChangeNoAnswer: the suite passes with a backend that is slow at
// everything, and with one whose requests with a negative element fail.
func TestDelaysChangeNoAnswer(t *testing.T) {
	pause := func() { time.Sleep(time.Millisecond) }
	faults := backendtest.Faults{
		Load:        func(context.Context, *backend.Config) error { pause(); return nil },
		NewInstance: func(context.Context, *backend.InstanceConfig) error { pause(); return nil },
		Execute:     func(context.Context, *backend.Batch) error { pause(); return nil },
		Respond: func(r *backend.Request) *backend.Error {
			pause()
			if in := r.Inputs[0]; in.Datatype == tensor.Int32 && len(in.Data) == 4 && in.Data[3]&0x80 != 0 {
				return backend.Errorf(backend.InvalidArg, "negative")
			}
			return nil
		},
	}
	backendtest.Run(t, backendtest.Suite{
		Driver:   faults.Driver(identity.New()),
		Identity: func(_ *testing.T, d tensor.Datatype, batch int) backend.Config { return config(d, batch) },
		Failing:  func(*testing.T) backend.Config { return config(tensor.Int32, 8) },
	})
}

// TestFaultsTakeThePlaceOfCalls: each error is that of its call, and the next
// call is served.
func TestFaultsTakeThePlaceOfCalls(t *testing.T) {
	fault := errors.New("injected")
	failing := "" // the call that fails
	at := func(call string) error {
		if call == failing {
			return fault
		}
		return nil
	}
	faults := backendtest.Faults{
		Load:        func(context.Context, *backend.Config) error { return at("Load") },
		NewInstance: func(context.Context, *backend.InstanceConfig) error { return at("NewInstance") },
		Execute:     func(context.Context, *backend.Batch) error { return at("Execute") },
	}
	b, err := faults.Driver(identity.New()).Open(t.Context(), nil, backend.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	failing = "Load"
	if _, err := b.Load(t.Context(), config(tensor.Int32, 0)); !errors.Is(err, fault) {
		t.Errorf("Load: %v", err)
	}
	failing = "NewInstance"
	m, err := b.Load(t.Context(), config(tensor.Int32, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.NewInstance(t.Context(), backend.InstanceConfig{}); !errors.Is(err, fault) {
		t.Errorf("NewInstance: %v", err)
	}
	failing = "Execute"
	in, err := m.NewInstance(t.Context(), backend.InstanceConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := in.Execute(t.Context(), &backend.Batch{}); !errors.Is(err, fault) {
		t.Errorf("Execute: %v", err)
	}
	failing = ""
	if err := in.Execute(t.Context(), &backend.Batch{}); err != nil {
		t.Errorf("Execute after the fault: %v", err)
	}
}
