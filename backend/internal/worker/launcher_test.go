//go:build unix

package worker

import (
	"path/filepath"
	"testing"
	"time"
)

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
		r := frameReader{src: p.ch.Control}
		if h, _, err := r.next(); err != nil || h.Kind != KindHello {
			t.Errorf("got %v: %v", h, err)
		}
		r.close()
		p.closeChannels()
		if !p.await(20 * time.Second) {
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
