package httpapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/internal/processors"
)

// largeRequest is one of 1 MiB for model fp32 or echo; n is its first number.
func largeRequest(n uint32) (headers []string, body []byte) {
	const numbers = 1 << 18
	text := fmt.Sprintf(`{"inputs":[{"name":"IN","shape":[%d],"datatype":"FP32","parameters":{"binary_data_size":%d}}],`+
		`"parameters":{"binary_data_output":true}}`, numbers, 4*numbers)
	tail := make([]byte, 4*numbers)
	binary.LittleEndian.PutUint32(tail, n)
	return []string{fmt.Sprintf("Inference-Header-Content-Length: %d", len(text))}, append([]byte(text), tail...)
}

// Requests with large bodies that wait at the door of a busy model count as pending, and
// each gets its own answer.
func TestWhoWaitsAtTheDoorIsPending(t *testing.T) {
	release := make(chan struct{})
	var once sync.Once
	let := func() { once.Do(func() { close(release) }) }
	defer let()
	echo := &nesotest.Echo{OnExecute: func(ctx context.Context, _ backend.Config, _ *backend.Batch) (bool, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return false, nil
	}}
	addr, e := serveEngine(t, echo, nil)
	all := 2*(1+processors.Count()) + 20 // of which some 14 find no place
	clients := make([]*client, all)
	var sent sync.WaitGroup
	for i := range clients {
		clients[i] = dial(t, addr)
		sent.Go(func() {
			headers, body := largeRequest(uint32(i))
			clients[i].send("POST", "/v2/models/echo/infer", headers, body)
		})
	}
	pending := func() int64 {
		pin, err := e.Resolve(t.Context(), "echo", 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer pin.Unpin()
		return pin.Model.Stats().Snapshot().Pending
	}
	for limit := time.Now().Add(time.Minute); pending() != int64(all-1); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%d are pending, expected %d", pending(), all-1)
		}
	}
	let()
	for i, c := range clients {
		r := c.receive("POST")
		_, want := largeRequest(uint32(i))
		if r.StatusCode != 200 || !bytes.HasSuffix(r.body, want[len(want)-1<<20:]) {
			t.Errorf("request %d: %d, %.200s", i, r.StatusCode, r.body)
		}
	}
	sent.Wait()
	if n := pending(); n != 0 {
		t.Errorf("in the end %d are pending", n)
	}
}

// Clients that send a part of a large body, and then nothing, keep no others out.
func TestWhoSendsHalfKeepsNobodyOut(t *testing.T) {
	addr := serve(t, nil, nil)
	headers, body := largeRequest(7)
	for range 2*(1+processors.Count()) + 20 {
		c := dial(t, addr)
		var b strings.Builder
		fmt.Fprintf(&b, "POST /v2/models/fp32/infer HTTP/1.1\r\nHost: localhost\r\n%s\r\nContent-Length: %d\r\n\r\n", headers[0], len(body))
		if _, err := c.c.Write(append([]byte(b.String()), body[:64<<10]...)); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		r := dial(t, addr).do("POST", "/v2/models/fp32/infer", headers, body)
		if r.StatusCode != 200 || !bytes.HasSuffix(r.body, body[len(body)-1<<20:]) {
			t.Errorf("%d, %.200s", r.StatusCode, r.body)
		}
	}
}
