package httpapi

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/httpapi/cloudform"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/kserve/jsonwire"
)

// Header values are shared: net/http only reads them.
var (
	jsonType   = []string{"application/json"}
	binaryType = []string{"application/octet-stream"}
	textType   = []string{"text/plain"}
	gzipCoding = []string{"gzip"}
	zlibCoding = []string{"deflate"}
	bearer     = []string{`Bearer realm="neso"`}
	bothCoding = []string{"gzip, deflate"}
)

// lengthHeader holds the length of the JSON before the tensors' bytes.
const lengthHeader = cloudform.LengthHeader

// autoLength is below the size up to which net/http finds the content length
// by itself, without a header value of our own.
const autoLength = 2000

// write sends a whole reply.
func (s *Server) write(w http.ResponseWriter, h http.Header, status int, body []byte) {
	if len(body) > autoLength {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	if status != http.StatusOK {
		w.WriteHeader(status)
	}
	s.boundReply(w)
	if len(body) > 0 {
		_, _ = w.Write(body) // a client that is gone needs no answer
	}
}

// boundReply bounds how long a client may take for a reply that is written at once.
func (s *Server) boundReply(w http.ResponseWriter) {
	if _, ours := w.(gatherer); !ours { // it bounds small ones itself, when they do not go at once
		if d := times(w); d != nil {
			_ = d.SetWriteDeadline(time.Now().Add(s.o.ReadTimeout))
		}
	}
}

// replyText sends an error that has no code of the core's.
func (s *Server) replyText(w http.ResponseWriter, h http.Header, status int, text string) {
	h["Content-Type"] = jsonType
	s.write(w, h, status, jsonwire.AppendError(nil, text))
}

// replyError sends an error of the core.
func (s *Server) replyError(w http.ResponseWriter, h http.Header, contentType []string, err *backend.Error) {
	h["Content-Type"] = contentType
	if err.Code == backend.Unauthenticated {
		h["Www-Authenticate"] = bearer
	}
	if err.RetryAfter > 0 {
		seconds := (err.RetryAfter + time.Second - 1) / time.Second
		h["Retry-After"] = []string{strconv.FormatInt(int64(seconds), 10)}
	}
	s.write(w, h, kserve.HTTPStatus(err.Code), jsonwire.AppendError(nil, err.Message))
}

// clock holds the Date header of the present second, so that it is not
// formatted for every reply.
type clock struct{ now atomic.Pointer[stamp] }

type stamp struct {
	second int64
	header []string
}

func (c *clock) date() []string { return c.at(time.Now()) }

// at formats the time unless its second is the one it has. The wall clock may
// jump either way.
func (c *clock) at(t time.Time) []string {
	s := c.now.Load()
	if s == nil || s.second != t.Unix() {
		s = &stamp{second: t.Unix(), header: []string{t.UTC().Format(http.TimeFormat)}}
		c.now.Store(s)
	}
	return s.header
}

// replyEmpty answers without a body.
func (s *Server) replyEmpty(w http.ResponseWriter, status int) {
	h := w.Header()
	h["Content-Type"] = textType
	s.write(w, h, status, nil)
}
