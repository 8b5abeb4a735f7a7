package transport

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"
)

// echoed answers with the body of the request, in each of the ways that a handler
// may write: whole, in pieces, with and without a length.
func echoed(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	h := w.Header()
	h["Content-Type"] = []string{"application/octet-stream"}
	if len(b)%3 > 0 {
		h["Content-Length"] = []string{strconv.Itoa(len(b))}
	}
	if g, ok := w.(*response); ok && len(b)%2 == 0 {
		_ = g.WriteParts(b[:len(b)/2], [][]byte{b[len(b)/2:]})
		return
	}
	_, _ = w.Write(b)
}

// TestHammer has clients ask at the same time, in pieces, several at once and
// through net/http as well, and go away in the middle: what is reused from one
// request to the next, or for another connection's, is nobody else's by then.
func TestHammer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(&http.Server{Handler: http.HandlerFunc(echoed), ReadTimeout: time.Minute}, isInfer)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	var wg sync.WaitGroup
	for n := range 4 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 1))
			for range 20 {
				if err := conversation(l.Addr().String(), random); err != nil {
					t.Errorf("client %d: %v", n, err)
				}
			}
		})
	}
	wg.Wait()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	<-done
}

// conversation asks on one connection until the client is tired of it.
func conversation(address string, random *rand.Rand) error {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	br := bufio.NewReader(c)
	for range random.IntN(12) {
		var asked bytes.Buffer
		var bodies [][]byte
		for range 1 + random.IntN(3) {
			body := bytes.Repeat([]byte{byte(random.Uint32())}, random.IntN([]int{10, 3000, 2 * joined, 2 * rawMost}[random.IntN(4)]))
			bodies = append(bodies, body)
			fmt.Fprintf(&asked, "POST /%s HTTP/1.1\r\nHost: x\r\nX: %d\r\nContent-Length: %d\r\n\r\n%s",
				[]string{"a/infer", "b/infer", "plain"}[random.IntN(3)], random.IntN(3), len(body), body)
		}
		all := asked.Bytes()
		if random.IntN(10) == 0 {
			_, _ = c.Write(all[:random.IntN(len(all))])
			return nil
		}
		wrote := make(chan error, 1)
		go func() {
			cut := len(all) / 2
			_, err := c.Write(all[:cut])
			if err == nil {
				_, err = c.Write(all[cut:])
			}
			wrote <- err
		}()
		for i, want := range bodies {
			r, err := http.ReadResponse(br, nil)
			if err != nil {
				return err
			}
			got, err := io.ReadAll(r.Body)
			_ = r.Body.Close()
			if err != nil {
				return err
			}
			if !bytes.Equal(got, want) {
				return fmt.Errorf("answer %d has %d other bytes than the %d sent", i, len(got), len(want))
			}
		}
		if err := <-wrote; err != nil {
			return err
		}
	}
	return nil
}
