package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nesoserve/neso/client/internal/bounded"
)

// overHTTP is the transport of HTTP.
type overHTTP struct {
	c     *Client
	do    *http.Client
	limit int64 // of an answer with tensors
}

// pool returns what holds connections; at most so many at once, 0 for any number.
func pool(connections int) *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		ForceAttemptHTTP2:     false, // each request has a connection: tensors of one do not wait for those of another
		DisableCompression:    true,  // only what is asked for by CompressAnswers
		MaxIdleConns:          0,
		MaxIdleConnsPerHost:   1024, // as many as there were requests at once
		MaxConnsPerHost:       connections,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   handshakeTime,
		ExpectContinueTimeout: time.Second,
		WriteBufferSize:       64 << 10,
		ReadBufferSize:        64 << 10,
	}
}

func openHTTP(c *Client, limit int64) *overHTTP {
	h := &overHTTP{c: c, do: c.HTTP, limit: limit}
	if h.do == nil {
		t := pool(c.Connections)
		dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: c.KeepAlive}
		t.DialContext, t.DialTLSContext = dialer.DialContext, dialTLS(dialer.DialContext, c.TLS)
		t.TLSClientConfig = c.TLS // where a proxy is between
		h.do = &http.Client{Transport: t}
	}
	return h
}

func (h *overHTTP) close() error {
	h.do.CloseIdleConnections()
	return nil
}

// overHTTP returns the transport for what only HTTP has.
func (c *Client) overHTTP(call string) (*overHTTP, error) {
	t, err := c.transport()
	if err != nil {
		return nil, err
	}
	h, ok := t.(*overHTTP)
	if !ok {
		return nil, fmt.Errorf("%s: %s needs HTTP", c.URL, call)
	}
	return h, nil
}

// asTheyStand takes back what url.PathEscape escapes though a segment has it as it
// is (RFC 3986, pchar): servers look names up as they stand in the path.
var asTheyStand = strings.NewReplacer("%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*", "%2C", ",", "%3B", ";")

// escaped returns a name as a segment of a path.
func escaped(name string) string { return asTheyStand.Replace(url.PathEscape(name)) }

// withQuery adds a query to a URL, which may have one.
func withQuery(address string, query url.Values) string {
	switch {
	case len(query) == 0:
		return address
	case strings.Contains(address, "?"):
		return address + "&" + query.Encode()
	default:
		return address + "?" + query.Encode()
	}
}

func modelPath(model, version string) string {
	path := "/v2/models/" + escaped(model)
	if version != "" {
		path += "/versions/" + url.PathEscape(version)
	}
	return path
}

// call sends body, if any, as JSON and returns the answer.
func (h *overHTTP) call(ctx context.Context, method, path string, body any) (json.RawMessage, error) {
	var content [][]byte
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = [][]byte{text}
	}
	resp, err := h.send(ctx, method, path, nil, content)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return bounded.ReadAll(resp.Body, resp.ContentLength, maxAnswer, 0)
}

// send makes a request of the parts; an answer that is no success becomes an *Error.
func (h *overHTTP) send(ctx context.Context, method, path string, header http.Header, parts [][]byte) (*http.Response, error) {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	req, err := http.NewRequestWithContext(ctx, method, withQuery(h.c.URL+path, h.c.Query), http.NoBody)
	if err != nil {
		return nil, err
	}
	if req.Header, err = h.c.headers(ctx, header); err != nil {
		return nil, err
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	if size > 0 {
		req.ContentLength = int64(size)
		req.GetBody = func() (io.ReadCloser, error) { return &body{parts: parts}, nil }
		req.Body, _ = req.GetBody()
	}
	resp, err := h.do.Do(req)
	if err != nil {
		return nil, plain(err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, answered(resp)
}

// answered makes an *Error of an answer.
func answered(resp *http.Response) error {
	text, err := readAnswer(resp, maxAnswer, 0)
	if err != nil {
		return err
	}
	var answer struct{ Error string }
	text = bytes.TrimPrefix(text, []byte("data: ")) // of an event that Triton sends with the status of an error
	if json.Unmarshal(text, &answer) != nil || answer.Error == "" {
		answer.Error = strings.TrimSpace(string(text))
	}
	if answer.Error == "" {
		answer.Error = http.StatusText(resp.StatusCode)
	}
	e := &Error{Status: resp.StatusCode, Message: answer.Error, Code: codeOf(resp.StatusCode)}
	value := resp.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		e.RetryAfter = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		e.RetryAfter = max(time.Until(at), 0)
	}
	return e
}

// readAnswer reads a body, and expands it; lead is that of bounded.ReadAll.
func readAnswer(resp *http.Response, limit int64, lead int) ([]byte, error) {
	declared := resp.ContentLength
	encoding := resp.Header.Get("Content-Encoding")
	r, err := bounded.Expand(encoding, resp.Body)
	if err != nil {
		return nil, err
	}
	if encoding != "" {
		declared = -1
	}
	return bounded.ReadAll(r, declared, limit, lead)
}

// body reads parts one behind the other, where they lie.
type body struct {
	parts [][]byte
	at    int // within the first one
}

func (b *body) Read(p []byte) (int, error) {
	n := 0
	for len(b.parts) > 0 && n < len(p) {
		k := copy(p[n:], b.parts[0][b.at:])
		n += k
		if b.at += k; b.at == len(b.parts[0]) {
			b.parts, b.at = b.parts[1:], 0
		}
	}
	if n == 0 && len(b.parts) == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (b *body) Close() error { return nil }

func (h *overHTTP) probe(ctx context.Context, path string) (bool, error) {
	_, err := h.call(ctx, http.MethodGet, path, nil)
	if answer, ok := errors.AsType[*Error](err); ok && notReady(answer) {
		return false, nil
	}
	return err == nil, err
}

func (h *overHTTP) live(ctx context.Context) (bool, error) { return h.probe(ctx, "/v2/health/live") }

func (h *overHTTP) ready(ctx context.Context) (bool, error) { return h.probe(ctx, "/v2/health/ready") }

func (h *overHTTP) modelReady(ctx context.Context, model, version string) (bool, error) {
	return h.probe(ctx, modelPath(model, version)+"/ready")
}
