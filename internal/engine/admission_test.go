package engine

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/hostmemory"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestCaps(t *testing.T) {
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": ""})
	o := explicit(top, "a")
	o.MaxQueuedBytes, o.MaxQueuedRequests = 100, 2
	e := server(t, o, &nesotest.Echo{Name: "echo"})
	resolve := func(bytes int64) Pin {
		t.Helper()
		p, err := e.Resolve(t.Context(), "a", -1, bytes)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	refused := func(bytes int64, text string) {
		t.Helper()
		_, err := e.Resolve(t.Context(), "a", -1, bytes)
		wantError(t, err, backend.Unavailable, text)
		if err != nil && backend.AsError(err).RetryAfter != retryAfter {
			t.Error("no RetryAfter")
		}
	}
	one := resolve(60)
	refused(41, "41 bytes of input are more than the server can queue at present, its maximum is 100 bytes (max-queued-bytes)")
	refused(1<<62, "4611686018427387904 bytes of input are more than the server can queue at present, its maximum is 100 bytes "+
		"(max-queued-bytes)")
	two := resolve(40)
	refused(0, "the server holds its maximum of 2 requests (max-queued-requests)")
	one.Unpin()
	two.Unpin()
	wantServed(t, e, "a", -1, 1)
	resolve(-5).Unpin()

	// A request that is refused or discarded gives back what it held.
	sink := infer.NewSingle()
	r := resolve(100).NewRequest(sink)
	r.Inputs = []tensor.Tensor{{Name: "ZZ"}}
	if err := e.Infer(r); err == nil {
		t.Error("no error")
	}
	resolve(100).NewRequest(sink).Discard()
	resolve(100).Unpin()
}

func TestResolveDoesNotAllocate(t *testing.T) {
	top := nesotest.Tree(t, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": ""})
	e := server(t, explicit(top, "a"), &nesotest.Echo{Name: "echo"})
	if n := testing.AllocsPerRun(100, func() {
		p, err := e.Resolve(t.Context(), "a", -1, 64)
		if err != nil {
			t.Fatal(err)
		}
		p.Unpin()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkResolve(b *testing.B) {
	echo := &nesotest.Echo{Name: "echo"}
	top := nesotest.Tree(b, map[string]string{"a/config.pbtxt": echoConfig, "a/1/": ""})
	o := explicit(top, "a")
	o.Backends = []backend.Driver{echo.Driver()}
	e, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = e.Close(b.Context()) }()
	if err := e.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p, err := e.Resolve(context.Background(), "a", -1, 64)
			if err != nil {
				b.Error(err)
				return
			}
			p.Unpin()
		}
	})
}

func TestDefaultCaps(t *testing.T) {
	o := Options{NoRepository: true}
	if err := o.fill(); err != nil {
		t.Fatal(err)
	}
	if o.MaxQueuedRequests != 65536 || o.MaxQueuedBytes < 1<<20 || o.MaxQueuedBytes != hostmemory.Available()/4 {
		t.Error(o.MaxQueuedRequests, o.MaxQueuedBytes)
	}
	if d := cmp.Diff([]any{o.ID, o.ControlMode, o.LoadThreads}, []any{"triton", "none", 4}); d != "" {
		t.Error(d)
	}
}
