package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/identity"
	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/ledger"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/internal/nesotest/transcript"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// config is a model with one input and output per datatype given.
func config(more string, datatypes ...string) string {
	var in, out []string
	for i, d := range datatypes {
		name := "IN"
		if i > 0 {
			name += strconv.Itoa(i)
		}
		dims := "-1"
		if d, ok := strings.CutPrefix(d, "STRING1"); ok {
			dims, datatypes[i] = "1", "STRING"+d
		}
		in = append(in, fmt.Sprintf(`{ name: "%s" data_type: TYPE_%s dims: [ %s ] }`, name, datatypes[i], dims))
		out = append(out, fmt.Sprintf(`{ name: "OUT%s" data_type: TYPE_%s dims: [ %s ] }`, name[2:], datatypes[i], dims))
	}
	return "backend: \"identity\"\ninput [ " + strings.Join(in, ", ") + " ]\noutput [ " + strings.Join(out, ", ") + " ]\n" + more
}

// models is the repository of most tests.
var models = map[string]string{
	"fp32/config.pbtxt": config("", "FP32"), "fp32/1/": "",
	"versions/config.pbtxt": config(`version_policy { all {} }`, "INT32"), "versions/1/": "", "versions/3/": "",
	"batch/config.pbtxt": config("max_batch_size: 8", "FP32"), "batch/1/": "",
	"bytes/config.pbtxt": config("", "STRING"), "bytes/1/": "",
	"word/config.pbtxt": config("", "STRING1"), "word/1/": "",
	"fp16/config.pbtxt": config("", "FP16"), "fp16/1/": "",
	"two/config.pbtxt": config("", "INT32", "INT32"), "two/1/": "",
	"classes/config.pbtxt": strings.Replace(config("max_batch_size: 4", "FP32"), `"OUT" data_type`,
		`"OUT" label_filename: "labels.txt" data_type`, 1), "classes/1/": "", "classes/labels.txt": "ant\nbee\ncat\n",
	"decoupled/config.pbtxt": config("model_transaction_policy { decoupled: true }", "FP32"), "decoupled/1/": "",
	"talk/config.pbtxt": strings.Replace(config("model_transaction_policy { decoupled: true }", "FP32"), "identity", "echo", 1), "talk/1/": "",
	"echo/config.pbtxt": strings.Replace(config("", "FP32"), "identity", "echo", 1), "echo/1/": "",
}

// serve starts a server for the models and returns its address.
func serve(t testing.TB, echo *nesotest.Echo, change func(*Options, *engine.Options)) string {
	t.Helper()
	addr, _ := serveEngine(t, echo, change)
	return addr
}

// serveEngine is serve for who needs the engine, too.
func serveEngine(t testing.TB, echo *nesotest.Echo, change func(*Options, *engine.Options)) (string, *engine.Engine) {
	t.Helper()
	if echo == nil {
		echo = &nesotest.Echo{}
	}
	echo.Name = "echo"
	eo := engine.Options{Repositories: []string{nesotest.Tree(t, models)}, Backends: []backend.Driver{identity.New(), echo.Driver()}}
	o := Options{}
	if change != nil {
		change(&o, &eo)
	}
	e, err := engine.New(eo)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.Engine = e
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := s.Transport()
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		_ = server.Shutdown(ctx) // waits for the handlers: what they hold is looked at below
		_ = server.Close()
		<-done
		if err := e.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		if in, out := e.Ledger().Held(ledger.In), e.Ledger().Held(ledger.Out); in != 0 || out != 0 {
			t.Errorf("%d bytes of bodies and %d of answers are still counted", in, out)
		}
	})
	return l.Addr().String(), e
}

// client sends one request after another over one connection.
type client struct {
	t  testing.TB
	c  net.Conn
	br *bufio.Reader
}

func dial(t testing.TB, addr string) *client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &client{t: t, c: c, br: bufio.NewReader(c)}
}

type reply struct {
	*http.Response
	body []byte
}

func (c *client) send(method, path string, headers []string, body []byte) {
	c.t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: localhost\r\n", method, path)
	for _, h := range headers {
		b.WriteString(h + "\r\n")
	}
	if body != nil {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n")
	b.Write(body)
	if _, err := c.c.Write(b.Bytes()); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) receive(method string) reply {
	c.t.Helper()
	r, err := c.answer(method)
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// answer is receive where the server may have ended the connection.
func (c *client) answer(method string) (reply, error) {
	r, err := http.ReadResponse(c.br, &http.Request{Method: method})
	if err != nil {
		return reply{}, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	return reply{r, body}, err
}

func (c *client) do(method, path string, headers []string, body []byte) reply {
	c.t.Helper()
	c.send(method, path, headers, body)
	return c.receive(method)
}

// TestTranscripts plays testdata/*.txt: a request line, headers, body lines
// that begin with "> " (text) or ">> " (a quoted string), a line of dashes, and
// the reply. All requests of a file use one connection.
func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(t *testing.T, name, text string) string {
		log, err := logging.Open(logging.DefaultSettings(), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		c := dial(t, serve(t, nil, func(o *Options, e *engine.Options) {
			o.MaxInputSize = 1 << 16
			o.Log = log
			o.HeaderForwardPattern = "^x-fwd|^timeout$"
			o.Restricted = map[Category]Restriction{Trace: {"a", "b"}}
			if name == "repository.txt" {
				e.ControlMode = "explicit"
			}
		}))
		var out strings.Builder
		for i, block := range strings.Split(strings.TrimSpace(text), "\n\n") {
			if i > 0 {
				out.WriteString("\n")
			}
			question, _, _ := strings.Cut(block, "\n----")
			out.WriteString(question + "\n----\n" + play(c, question))
		}
		return out.String()
	})
}

func play(c *client, question string) string {
	var method, path string
	var headers []string
	var body []byte
	for line := range strings.SplitSeq(question, "\n") {
		switch {
		case strings.HasPrefix(line, "#"):
		case method == "":
			method, path, _ = strings.Cut(line, " ")
		case strings.HasPrefix(line, ">> "):
			part, err := strconv.Unquote(line[3:])
			if err != nil {
				c.t.Fatalf("%s: %v", line, err)
			}
			body = append(body, part...)
		case strings.HasPrefix(line, "> "):
			body = append(body, line[2:]...)
		default:
			headers = append(headers, line)
		}
	}
	if method == "POST" && body == nil {
		body = []byte{}
	}
	r := c.do(method, path, headers, body)
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s", r.StatusCode, r.Header.Get("Content-Type"))
	for _, h := range []string{"Inference-Header-Content-Length", "Accept-Encoding", "Retry-After", "Connection"} {
		if v := r.Header.Get(h); v != "" {
			fmt.Fprintf(&b, "\n%s: %s", h, v)
		}
	}
	b.WriteByte('\n')
	for _, ch := range r.body {
		if ch < ' ' || ch > '~' {
			fmt.Fprintf(&b, "%q\n", r.body)
			return b.String()
		}
	}
	if len(r.body) > 0 {
		b.Write(append(r.body, '\n'))
	}
	return b.String()
}
