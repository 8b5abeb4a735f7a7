package transport

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/internal/nesotest"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// script is a connection whose client sends the chunks, whatever it is answered,
// and closes its half then. A read never waits.
type script struct {
	mu     sync.Mutex
	chunks [][]byte
	out    bytes.Buffer
	closed chan struct{}
	once   sync.Once
}

func (c *script) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.chunks) > 0 && len(c.chunks[0]) == 0 {
		c.chunks = c.chunks[1:]
	}
	if len(c.chunks) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.chunks[0])
	c.chunks[0] = c.chunks[0][n:]
	return n, nil
}

func (c *script) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(p)
}

func (c *script) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

func (c *script) CloseWrite() error                { return nil }
func (c *script) LocalAddr() net.Addr              { return address{} }
func (c *script) RemoteAddr() net.Addr             { return address{} }
func (c *script) SetDeadline(time.Time) error      { return nil }
func (c *script) SetReadDeadline(time.Time) error  { return nil }
func (c *script) SetWriteDeadline(time.Time) error { return nil }

type address struct{}

func (address) Network() string { return "test" }
func (address) String() string  { return "client:1" }

// once is a listener with the given connections.
type listening struct {
	conns chan net.Conn
	end   chan struct{}
	once  sync.Once
}

func listen(conns ...net.Conn) *listening {
	l := &listening{conns: make(chan net.Conn, len(conns)), end: make(chan struct{})}
	for _, c := range conns {
		l.conns <- c
	}
	return l
}

func (l *listening) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.end:
		return nil, net.ErrClosed
	}
}

func (l *listening) Close() error {
	l.once.Do(func() { close(l.end) })
	return nil
}

func (l *listening) Addr() net.Addr { return address{} }

func isInfer(path string) bool { return strings.HasSuffix(path, "/infer") }

// handler tells what it has been asked. The path says how it behaves.
func handler(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["Content-Type"] = []string{"text/plain"}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s %s %s %s %d %q\n", r.Method, r.URL.EscapedPath(), r.URL.Path, r.Proto, r.Host, r.ContentLength, r.URL.RawQuery)
	var names []string
	for name := range r.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "%s: %q\n", name, r.Header[name])
	}
	switch {
	case strings.Contains(r.URL.Path, "unread"):
	case strings.Contains(r.URL.Path, "half"):
		body := make([]byte, r.ContentLength/2)
		n, err := io.ReadFull(r.Body, body)
		fmt.Fprintf(&b, "half of the body: %q %v", body[:n], err)
	default:
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(&b, "body: %q %v", body, err)
	}
	if b.Len() > 2000 { // from there on net/http does not find it
		h["Content-Length"] = []string{fmt.Sprint(b.Len())}
	}
	switch {
	case strings.Contains(r.URL.Path, "fail"):
		w.WriteHeader(http.StatusServiceUnavailable)
	case strings.Contains(r.URL.Path, "end"):
		h["Connection"] = []string{"close"}
	case strings.Contains(r.URL.Path, "empty"):
		return
	case strings.Contains(r.URL.Path, "panic"):
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(b.Bytes())
}

// answers returns what a server says to the chunks, with the fields of each
// answer in order.
func answers(t *testing.T, chunks [][]byte, fast bool) string {
	t.Helper()
	sc := &script{chunks: chunks, closed: make(chan struct{})}
	h := &http.Server{
		Handler: http.HandlerFunc(handler), MaxHeaderBytes: 8 << 10, ReadTimeout: time.Minute,
		ErrorLog: log.New(io.Discard, "", 0),
	}
	s := New(h, isInfer)
	var c net.Conn = sc
	serve := h.Serve
	if fast {
		c, serve = newConn(sc, sc, s), s.Serve
	}
	l := listen(c)
	var wg sync.WaitGroup
	wg.Go(func() { _ = serve(l) })
	<-sc.closed
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	return tell(sc.out.Bytes())
}

// tell brings answers into a form that can be compared.
func tell(out []byte) string {
	var b strings.Builder
	br := bufio.NewReader(bytes.NewReader(out))
	for {
		if _, err := br.Peek(1); err != nil {
			return b.String()
		}
		r, err := http.ReadResponse(br, nil)
		if err != nil {
			rest, _ := io.ReadAll(br)
			fmt.Fprintf(&b, "not an answer: %v %q\n", err, rest)
			return b.String()
		}
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		delete(r.Header, "Date")
		fmt.Fprintf(&b, "%s close=%v length=%d %v\n%q %v\n\n", r.Status, r.Close, r.ContentLength, r.Header, body, err)
	}
}

const (
	simple = "POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
	get    = "GET /v2/health HTTP/1.1\r\nHost: x\r\n\r\n"
)

func post(path string, fields ...string) string {
	return "POST " + path + " HTTP/1.1\r\n" + strings.Join(append(fields, "", ""), "\r\n")
}

// talks are what clients may send on a connection.
var talks = map[string]string{
	"one":                  simple,
	"three":                simple + simple + simple,
	"mixed":                get + simple + get + simple,
	"versions":             post("/v2/models/m/versions/12/infer", "Host: a.b:80", "Content-Length: 0") + simple,
	"case of names":        post("/m/infer", "hOST: x", "content-LENGTH:4", "x-lower: 1", "X-UPPER:\t2 ", "x_under: 3") + "1234" + simple,
	"repeated fields":      post("/m/infer", "Host: x", "A: 1", "a: 2", "Content-Length: 0", "A: 3") + simple,
	"empty value":          post("/m/infer", "Host: x", "A:", "Content-Length: 0") + simple,
	"keep-alive":           post("/m/infer", "Host: x", "Connection: Keep-Alive", "Content-Length: 1") + "a" + simple,
	"close":                post("/m/infer", "Host: x", "Connection: close", "Content-Length: 1") + "a" + simple,
	"close twice":          post("/m/infer", "Host: x", "Connection: keep-alive", "Connection: close", "Content-Length: 1") + "a" + simple,
	"close asked later":    simple + post("/m/infer", "Host: x", "Connection: close", "Content-Length: 1") + "a" + simple,
	"no length":            post("/m/infer", "Host: x") + simple,
	"no host":              post("/m/infer", "Content-Length: 1") + "a" + simple,
	"two hosts":            post("/m/infer", "Host: x", "Host: y", "Content-Length: 1") + "a" + simple,
	"empty host":           post("/m/infer", "Host:", "Content-Length: 1") + "a" + simple,
	"odd host":             post("/m/infer", "Host: a b", "Content-Length: 1") + "a" + simple,
	"same length twice":    post("/m/infer", "Host: x", "Content-Length: 3", "Content-Length: 3") + "abc" + simple,
	"two lengths":          post("/m/infer", "Host: x", "Content-Length: 3", "Content-Length: 30") + "abc" + simple,
	"list of lengths":      post("/m/infer", "Host: x", "Content-Length: 3, 3") + "abc" + simple,
	"signed length":        post("/m/infer", "Host: x", "Content-Length: +3") + "abc" + simple,
	"hexadecimal length":   post("/m/infer", "Host: x", "Content-Length: 0x3") + "abc" + simple,
	"leading zeros":        post("/m/infer", "Host: x", "Content-Length: 003") + "abc" + simple,
	"negative length":      post("/m/infer", "Host: x", "Content-Length: -1") + "abc" + simple,
	"empty length":         post("/m/infer", "Host: x", "Content-Length:") + "abc" + simple,
	"huge length":          post("/m/infer", "Host: x", "Content-Length: 99999999999999999999") + "abc" + simple,
	"long body, cut":       post("/m/infer", "Host: x", "Content-Length: 999999999999999999") + "abc" + simple,
	"chunked":              post("/m/infer", "Host: x", "Transfer-Encoding: chunked") + "3\r\nabc\r\n0\r\n\r\n" + simple,
	"chunked with length":  post("/m/infer", "Host: x", "Content-Length: 3", "Transfer-Encoding: chunked") + "3\r\nabc\r\n0\r\n\r\n" + simple,
	"coded":                post("/m/infer", "Host: x", "Content-Length: 3", "Transfer-Encoding: xchunked") + "abc" + simple,
	"identity":             post("/m/infer", "Host: x", "Content-Length: 3", "Transfer-Encoding: identity") + "abc" + simple,
	"space before colon":   post("/m/infer", "Host: x", "Content-Length : 3") + "abc" + simple,
	"folded":               post("/m/infer", "Host: x", "A: 1", " 2", "Content-Length: 3") + "abc" + simple,
	"folded length":        post("/m/infer", "Host: x", "Content-Length:", " 3") + "abc" + simple,
	"bare line feeds":      strings.ReplaceAll(post("/m/infer", "Host: x", "Content-Length: 3"), "\r\n", "\n") + "abc" + simple,
	"one bare line feed":   "POST /m/infer HTTP/1.1\r\nHost: x\nContent-Length: 3\r\n\r\nabc" + simple,
	"bare end":             "POST /m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\nabc" + simple,
	"carriage returns":     "POST /m/infer HTTP/1.1\r\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc" + simple,
	"lone carriage return": post("/m/infer", "Host: x", "A: b\rContent-Length: 9", "Content-Length: 3") + "abc" + simple,
	"zero byte":            post("/m/infer", "Host: x", "A: b\x00c", "Content-Length: 3") + "abc" + simple,
	"bytes above 127":      post("/m/infer", "Host: x", "A: \xc3\xa9\xff", "Content-Length: 3") + "abc" + simple,
	"name above 127":       post("/m/infer", "Host: x", "\xc3\xa9: a", "Content-Length: 3") + "abc" + simple,
	"no colon":             post("/m/infer", "Host: x", "Abc", "Content-Length: 3") + "abc" + simple,
	"no name":              post("/m/infer", "Host: x", ": a", "Content-Length: 3") + "abc" + simple,
	"lines before":         "\r\n\r\n" + simple + "\r\n" + simple + "\n" + simple,
	"line ends after":      simple + "\r\n" + simple + "\r\n\r\n" + simple + "\n" + get + "\r\n" + simple,
	"many line ends after": simple + "\r\n\r\n\r\n" + simple,
	"line end at the end":  simple + "\r\n",
	"few bytes at the end": simple + "ab\n",
	"line ends, then cut":  simple + "\r\n\r\nGE",
	"1.0":                  strings.Replace(simple, "1.1", "1.0", 1) + simple,
	"1.0 keep-alive":       "POST /m/infer HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc" + simple,
	"2.0":                  strings.Replace(simple, "1.1", "2.0", 1) + simple,
	"1.2":                  strings.Replace(simple, "1.1", "1.2", 1) + simple,
	"0.9":                  "GET /v2\r\n" + simple,
	"preface":              "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + simple,
	"absolute":             post("http://y/m/infer", "Host: x", "Content-Length: 3") + "abc" + simple,
	"star":                 "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n" + simple,
	"connect":              "CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n" + simple,
	"escaped path":         post("/m%6f/infer", "Host: x", "Content-Length: 3") + "abc" + simple,
	"broken escape":        post("/m%zz/infer", "Host: x", "Content-Length: 3") + "abc" + simple,
	"query":                post("/m/infer?a=b", "Host: x", "Content-Length: 3") + "abc" + simple,
	"dots":                 post("/../m/./infer", "Host: x", "Content-Length: 3") + "abc" + simple,
	"two slashes":          post("//m/infer", "Host: x", "Content-Length: 3") + "abc" + simple,
	"spaces in line":       "POST  /m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc" + simple,
	"space at the end":     "POST /m/infer HTTP/1.1 \r\nHost: x\r\nContent-Length: 3\r\n\r\nabc" + simple,
	"tab in line":          "POST\t/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc" + simple,
	"lower-case method":    "post /m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc" + simple,
	"other method":         "PUT /m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc" + simple,
	"get with a body":      "GET /m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc" + simple,
	"head":                 "HEAD /m/x HTTP/1.1\r\nHost: x\r\n\r\n",
	"expect":               post("/m/infer", "Host: x", "Expect: 100-continue", "Content-Length: 3") + "abc" + simple,
	"expect, unread":       post("/unread/infer", "Host: x", "Expect: 100-continue", "Content-Length: 3") + "abc" + simple,
	"expect something":     post("/m/infer", "Host: x", "Expect: more", "Content-Length: 3") + "abc" + simple,
	"upgrade":              post("/m/infer", "Host: x", "Connection: Upgrade", "Upgrade: websocket", "Content-Length: 3") + "abc" + simple,
	"trailer":              post("/m/infer", "Host: x", "Trailer: A", "Content-Length: 3") + "abc" + simple,
	"te":                   post("/m/infer", "Host: x", "TE: trailers", "Content-Length: 3") + "abc" + simple,
	"pragma":               post("/m/infer", "Host: x", "Pragma: no-cache", "Content-Length: 3") + "abc" + simple,
	"long head": post("/m/infer", "Host: x", "A: "+strings.Repeat("a", 3000), "B: "+strings.Repeat("b", 3000),
		"Content-Length: 3") + "abc" + simple,
	"too long head":         post("/m/infer", "Host: x", "A: "+strings.Repeat("a", 30000), "Content-Length: 3") + "abc" + simple,
	"head of 4 KiB":         post("/m/infer", "Host: x", "A: "+strings.Repeat("a", headRoom-62), "Content-Length: 3") + "abc" + simple,
	"cut in the head":       simple + "POST /m/infer HTTP/1.1\r\nHost",
	"cut in the body":       simple + post("/m/infer", "Host: x", "Content-Length: 30") + "abc",
	"cut in a plain body":   simple + post("/m/other", "Host: x", "Content-Length: 30") + "abc",
	"unread":                post("/unread/infer", "Host: x", "Content-Length: 9") + "123456789" + simple,
	"unread, plain":         post("/unread/x", "Host: x", "Content-Length: 9") + "123456789" + simple,
	"half read":             post("/half/infer", "Host: x", "Content-Length: 9") + "123456789" + simple,
	"unread, cut":           post("/unread/infer", "Host: x", "Content-Length: 9") + "1234",
	"failure":               post("/fail/infer", "Host: x", "Content-Length: 1") + "1" + simple,
	"end":                   simple + post("/end/infer", "Host: x", "Content-Length: 1") + "1" + simple,
	"end, plain":            simple + post("/end/x", "Host: x", "Content-Length: 1") + "1" + simple,
	"empty answer":          post("/empty/infer", "Host: x", "Content-Length: 1") + "1" + simple,
	"panic":                 simple + post("/panic/infer", "Host: x", "Content-Length: 1") + "1" + simple,
	"smuggled in a body":    post("/m/infer", "Host: x", "Content-Length: 101") + simple + simple + simple,
	"smuggled, plain":       post("/m/x", "Host: x", "Content-Length: 101") + simple + simple + simple,
	"garbage":               "\x16\x03\x01\x02\x00\x01\x00\n",
	"garbage between":       simple + "garbage\r\n\r\n" + simple,
	"nothing":               "",
	"plain with long body":  post("/m/x", "Host: x", "Content-Length: 9000") + strings.Repeat("a", 9000) + simple,
	"hot with long body":    post("/m/infer", "Host: x", "Content-Length: 9000") + strings.Repeat("a", 9000) + simple,
	"same head, other body": simple + strings.Replace(simple, "abc", "xyz", 1) + strings.Replace(simple, "/m/", "/n/", 1) + simple,
	"plain, then odd":       get + simple + strings.ReplaceAll(simple, "\r\n", "\n") + simple + get,
}

// Whatever a client sends, in whatever pieces, it is answered as net/http alone
// answers it.
func TestSameAsNetHTTP(t *testing.T) {
	for name, talk := range talks {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				want := answers(t, [][]byte{[]byte(talk)}, false)
				step := max(1, len(talk)/400)
				for at := 0; at <= len(talk); at += step {
					if got := answers(t, [][]byte{[]byte(talk[:at]), []byte(talk[at:])}, true); got != want {
						t.Fatalf("cut at %d: got\n%swant\n%s", at, got, want)
					}
				}
				var single [][]byte
				for i := range len(talk) {
					single = append(single, []byte{talk[i]})
				}
				if got := answers(t, single, true); got != want {
					t.Errorf("byte by byte: got\n%swant\n%s", got, want)
				}
			})
		})
	}
}

// More than net/http reads of a body that nobody wants ends the connection.
func TestUnreadBodies(t *testing.T) {
	for _, size := range []int{mostUnread - 1, mostUnread, mostUnread + 1} {
		for _, path := range []string{"/unread/infer", "/unread/fail/infer"} {
			synctest.Test(t, func(t *testing.T) {
				talk := []byte(post(path, "Host: x", fmt.Sprint("Content-Length: ", size)) + strings.Repeat("a", size) + simple)
				want := answers(t, [][]byte{slices.Clone(talk)}, false)
				if got := answers(t, [][]byte{talk}, true); got != want {
					t.Errorf("%s, %d: got\n%swant\n%s", path, size, got, want)
				}
			})
		}
	}
}

func FuzzSameAsNetHTTP(f *testing.F) {
	for _, talk := range talks {
		if len(talk) < 600 {
			f.Add([]byte(talk), uint16(len(talk)/2), uint16(7))
		}
	}
	f.Fuzz(func(t *testing.T, talk []byte, at, more uint16) {
		if len(talk) > 16<<10 {
			t.Skip("longer than anything that matters")
		}
		a := min(int(at), len(talk))
		b := min(a+int(more), len(talk))
		synctest.Test(t, func(t *testing.T) {
			want := answers(t, [][]byte{slices.Clone(talk)}, false)
			if got := answers(t, [][]byte{slices.Clone(talk[:a]), slices.Clone(talk[a:b]), slices.Clone(talk[b:])}, true); got != want {
				t.Errorf("%q cut at %d and %d: got\n%swant\n%s", talk, a, b, got, want)
			}
		})
	})
}
