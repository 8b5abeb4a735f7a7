package transport

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// half is an end of a pipe as a server gets it.
type half struct{ net.Conn }

// CloseWrite ends it whole: a pipe has no halves.
func (h half) CloseWrite() error { return h.Close() }

// fixture is a server with one connection in memory, in a bubble of its own
// time.
type fixture struct {
	t      *testing.T
	server *Server
	client net.Conn
	br     *bufio.Reader
	done   chan struct{}
}

func begin(t *testing.T, h http.HandlerFunc, change func(*http.Server)) *fixture {
	t.Helper()
	plain := &http.Server{Handler: h, ReadTimeout: time.Minute, IdleTimeout: 10 * time.Minute}
	if change != nil {
		change(plain)
	}
	s := New(plain, isInfer)
	near, far := net.Pipe()
	l := listen(newConn(half{far}, half{far}, s))
	f := &fixture{t: t, server: s, client: near, br: bufio.NewReader(near), done: make(chan struct{})}
	go func() {
		defer close(f.done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		_ = near.Close()
		_ = s.Close()
		<-f.done
		synctest.Wait()
	})
	return f
}

func (f *fixture) send(text string) {
	f.t.Helper()
	if _, err := io.WriteString(f.client, text); err != nil {
		f.t.Fatal(err)
	}
}

// receive returns the body of the next answer, and whether it is the last one.
func (f *fixture) receive() (body string, last bool) {
	f.t.Helper()
	r, err := http.ReadResponse(f.br, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return string(b), r.Close
}

// ended checks that the server closes after so long, and without another answer.
func (f *fixture) ended(after time.Duration) {
	f.t.Helper()
	start := time.Now()
	rest, err := io.ReadAll(f.br)
	if err != nil || len(rest) > 0 {
		f.t.Errorf("%q, %v", rest, err)
	}
	if took := time.Since(start); took != after {
		f.t.Errorf("closed after %v, want %v", took, after)
	}
}

// hello answers at once, after what the path says.
func hello(w http.ResponseWriter, r *http.Request) {
	_, err := io.ReadAll(r.Body)
	if strings.HasPrefix(r.URL.Path, "/wait") {
		select {
		case <-time.After(time.Hour):
		case <-r.Context().Done():
		}
	}
	text := "hello"
	if err != nil {
		text = err.Error()
	}
	w.Header()["Content-Type"] = []string{"text/plain"}
	_, _ = io.WriteString(w, text)
}

// The pause between requests is bound, wherever it is: after hot ones too,
// counted from the latest.
func TestIdleTimeout(t *testing.T) {
	for name, talk := range map[string][]string{
		"hot":               {simple},
		"several":           {simple, simple, simple},
		"plain, then hot":   {get, simple},
		"hot, then plain":   {simple, get},
		"plain":             {get},
		"other heads":       {simple, post("/x/infer", "Host: x", "Content-Length: 1") + "a"},
		"body came late":    {simple[:len(simple)-1], "c"},
		"head came late":    {simple[:20], simple[20:]},
		"one after an hour": {simple, simple},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := begin(t, hello, nil)
				for i, text := range talk {
					f.send(text)
					if len(talk) > i+1 && strings.HasSuffix(name, "late") {
						time.Sleep(30 * time.Second)
						continue
					}
					f.receive()
					if i+1 < len(talk) {
						time.Sleep(9 * time.Minute)
					}
				}
				f.ended(10 * time.Minute)
			})
		})
	}
}

// A short idle timeout holds after a request for which a longer one was set.
func TestIdleTimeoutBelowTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, hello, func(h *http.Server) { h.IdleTimeout = time.Second })
		f.send(simple[:30])
		time.Sleep(10 * time.Second)
		f.send(simple[30:])
		f.receive()
		f.ended(time.Second)
	})
}

func TestNoTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, hello, func(h *http.Server) { h.IdleTimeout, h.ReadTimeout = 0, 0 })
		for _, text := range []string{simple, simple[:40], simple[40:], get, simple} {
			f.send(text)
			if text != simple[:40] {
				f.receive()
			}
			time.Sleep(1000 * time.Hour)
		}
	})
}

// A head and a body have to arrive in time.
func TestSlowClients(t *testing.T) {
	for name, x := range map[string]struct {
		talk  []string // the first ones are answered
		cut   string   // is all that comes
		reply bool     // to the part
	}{
		"nothing":                  {nil, "", false},
		"head":                     {nil, simple[:20], false},
		"head, after hot":          {[]string{simple}, simple[:20], false},
		"head, after plain":        {[]string{get}, simple[:20], false},
		"body":                     {nil, simple[:len(simple)-1], true},
		"body, after hot":          {[]string{simple}, simple[:len(simple)-1], true},
		"plain head, after hot":    {[]string{simple}, get[:len(get)-1], false},
		"plain body, after hot":    {[]string{simple}, post("/x", "Host: x", "Content-Length: 2") + "a", true},
		"folded head, after hot":   {[]string{simple}, post("/x", "Host: x", " y")[:30], false},
		"plain body, after plain":  {[]string{get}, post("/x", "Host: x", "Content-Length: 2") + "a", true},
		"chunked body, after many": {[]string{simple, get, simple}, post("/x", "Host: x", "Transfer-Encoding: chunked") + "2\r\na", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := begin(t, hello, nil)
				for _, text := range x.talk {
					f.send(text)
					f.receive()
					time.Sleep(5 * time.Minute)
				}
				if x.cut != "" {
					f.send(x.cut)
				}
				start := time.Now()
				if x.reply {
					if body, last := f.receive(); !strings.Contains(body, "timeout") || !last {
						t.Errorf("%q, %v", body, last)
					}
				}
				if _, err := io.ReadAll(f.br); err != nil {
					t.Error(err)
				}
				if took := time.Since(start); took != time.Minute {
					t.Errorf("closed after %v", took)
				}
			})
		})
	}
}

// Who goes away cancels a hot request that runs for more than a moment.
func TestDisconnectCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan error, 1)
		f := begin(t, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			gone <- r.Context().Err()
		}, nil)
		f.send(simple)
		time.Sleep(time.Hour) // no deadline ends it
		select {
		case <-gone:
			t.Fatal("cancelled while the client waits")
		default:
		}
		_ = f.client.Close()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// A connection that has been watched goes on as before, also with what the
// client has sent meanwhile.
func TestWatchedConnectionGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength == 3 {
				_, _ = io.Copy(io.Discard, r.Body)
				time.Sleep(time.Second)
				if err := r.Context().Err(); err != nil {
					t.Error(err)
				}
			}
			hello(w, r)
		}, nil)
		other := post("/x/infer", "Host: x", "Content-Length: 5") + "12345"
		for range 3 {
			f.send(simple)
			f.receive()
			f.send(other)
			f.receive()
			f.send(get)
			f.receive()
			f.send(simple)
			time.Sleep(500 * time.Millisecond)
			f.send(simple + other + get)
			for range 4 {
				if body, _ := f.receive(); body != "hello" {
					t.Errorf("%q", body)
				}
			}
		}
		f.ended(10 * time.Minute)
	})
}

// What is in flight when the server stops is answered, with the word that it is
// the last answer; then the connection ends and Shutdown returns.
func TestShutdown(t *testing.T) {
	for _, before := range []string{"", get, simple} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			f := begin(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, "/slow") {
					<-release
				}
				hello(w, r)
			}, nil)
			if before != "" {
				f.send(before)
				f.receive()
			}
			f.send(post("/slow/infer", "Host: x", "Content-Length: 0"))
			synctest.Wait()
			time.Sleep(10 * time.Second) // net/http takes a new connection for an idle one after five
			f.server.SetKeepAlivesEnabled(false)
			var wg sync.WaitGroup
			wg.Go(func() {
				if err := f.server.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
				select {
				case <-release:
				default:
					t.Error("Shutdown did not wait")
				}
			})
			time.Sleep(time.Minute)
			close(release)
			if body, last := f.receive(); !last || body != "hello" {
				t.Errorf("%v %q", last, body)
			}
			f.ended(0)
			wg.Wait()
		})
	}
}

// An answer on a connection that is in use while the server stops says that it is the last one.
func TestLastAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, hello, nil)
		f.send(simple)
		f.receive()
		f.server.SetKeepAlivesEnabled(false)
		f.send(simple)
		if body, last := f.receive(); !last || body != "hello" {
			t.Errorf("%v %q", last, body)
		}
		f.ended(0)
	})
}

// Close cuts a hot request whose connection Shutdown has left to it.
func TestCloseCuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, hello, nil)
		f.send(get)
		f.receive()
		f.send(post("/wait/infer", "Host: x", "Content-Length: 0"))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := f.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := f.server.Close(); err != nil {
			t.Error(err)
		}
		f.ended(0) // its context ends, as the connection has
	})
}

// ConnContext and ConnState of the server's owner go on to be called.
func TestHooksAreKept(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var states []http.ConnState
		f := begin(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Context().Value(key{}) != 1 || r.Context().Value(http.LocalAddrContextKey) == nil ||
				r.Context().Value(http.ServerContextKey) == nil || r.RemoteAddr != "pipe" {
				t.Errorf("%v, %q", r.Context(), r.RemoteAddr)
			}
			hello(w, r)
		}, func(h *http.Server) {
			h.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return context.WithValue(ctx, key{}, 1) }
			h.ConnState = func(_ net.Conn, s http.ConnState) {
				mu.Lock()
				defer mu.Unlock()
				states = append(states, s)
			}
		})
		f.send(simple + get + simple)
		for range 3 {
			f.receive()
		}
		_ = f.client.Close()
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(states) != 4 || states[0] != http.StateNew || states[3] != http.StateClosed {
			t.Errorf("%v", states)
		}
	})
}

// A connection that Shutdown finds in the middle of an answer, whose head has
// not said that it is the last one, ends with that answer all the same.
func TestShutdownDuringAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 2 * joined
		f := begin(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				hello(w, r)
				return
			}
			w.Header()["Content-Type"] = []string{"text/plain"}
			w.Header()["Content-Length"] = []string{strconv.Itoa(size)}
			_, _ = w.Write(make([]byte, size)) // waits for the client
		}, nil)
		f.send(get)
		f.receive()
		f.send(post("/infer", "Host: x", "Content-Length: 0"))
		synctest.Wait()
		done := make(chan error, 1)
		go func() { done <- f.server.Shutdown(t.Context()) }()
		time.Sleep(time.Minute)
		if body, _ := f.receive(); len(body) != size {
			t.Errorf("%d bytes", len(body))
		}
		f.ended(0)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A bound that the handler has set on the arrival of a body holds from its first
// byte on.
func TestReadDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, func(w http.ResponseWriter, r *http.Request) {
			if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Second)); err != nil {
				t.Error(err)
			}
			hello(w, r)
		}, nil)
		f.send(simple[:len(simple)-3])
		start := time.Now()
		if body, last := f.receive(); !strings.Contains(body, "timeout") || !last {
			t.Errorf("%q, %v", body, last)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("answered after %v", took)
		}
	})
}

// Equal answers have equal heads: fields stand in the order of their names.
func TestOrderOfFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, func(w http.ResponseWriter, _ *http.Request) {
			for _, name := range []string{"X-D", "Content-Type", "X-A", "Inference-Header-Content-Length", "X-C", "X-B"} {
				w.Header()[name] = []string{"1"}
			}
			_, _ = io.WriteString(w, "hello")
		}, nil)
		for range 20 {
			f.send("POST /v2/models/m/infer HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
			var names []string
			for {
				line, err := f.br.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				name, _, field := strings.Cut(line, ":")
				if !field && line == "\r\n" {
					break
				}
				if field {
					names = append(names, name)
				}
			}
			if _, err := f.br.Discard(len("hello")); err != nil {
				t.Fatal(err)
			}
			want := "Content-Type Inference-Header-Content-Length X-A X-B X-C X-D Date Content-Length"
			if got := strings.Join(names, " "); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
		}
	})
}
