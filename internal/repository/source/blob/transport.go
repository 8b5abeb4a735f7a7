package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nesoserve/neso/backend"
)

const (
	// attempts is how often a request is sent before its failure counts.
	attempts = 5
	// throttled is the same of requests of which the store wants fewer for now: those
	// of a fleet that starts at once wait for each other, rather than fail.
	throttled = 12
	// maxPause bounds a pause, without what chance adds.
	maxPause = 8 * time.Second
	// defaultPause is that before the second attempt; it doubles with each.
	defaultPause = 200 * time.Millisecond
	// stall is how long a transfer may bring nothing.
	stall = 30 * time.Second
	// maxReply bounds a listing or an error of a store.
	maxReply = 32 << 20
)

// statusError is a refusal of the store.
type statusError struct {
	status        int
	code, message string // the store's own; they name no single request
	region        string // S3: where the bucket is
	after         time.Duration
}

// clocksApart is how far two clocks may be apart before stores refuse what one of them
// has signed: five minutes with Google, fifteen with the others.
const clocksApart = 5 * time.Minute

// tellClocks adds to a refusal what the clocks have to do with it. A store that takes a
// signature for wrong or too old does not say by how much.
func (e *statusError) tellClocks(stores string, now time.Time) {
	at, err := http.ParseTime(stores)
	if err != nil || e.status != http.StatusForbidden && e.status != http.StatusUnauthorized && e.status != http.StatusBadRequest {
		return
	}
	ahead := now.Sub(at).Round(time.Minute) // the same with each look, so that it is told once
	if ahead.Abs() < clocksApart {
		return
	}
	word := "ahead of"
	if ahead < 0 {
		word = "behind"
	}
	e.message = strings.TrimSpace(fmt.Sprintf("%s This machine's clock is %s %s the store's, so that its signatures are not valid.",
		e.message, ahead.Abs(), word))
}

func (e *statusError) Error() string {
	if e.code == "" {
		return strings.TrimSpace(fmt.Sprintf("HTTP status %d %s", e.status, e.message))
	}
	if e.message == "" {
		return e.code
	}
	return e.code + ": " + e.message
}

// errChanged says that an object is not the one that was listed.
var errChanged = errors.New("the object has changed while it was read")

// client sends requests with retries.
type client struct {
	http  *http.Client
	pause time.Duration // before the second attempt
	// prepare signs one attempt.
	prepare func(ctx context.Context, r *http.Request) error
	// explain reads the store's error out of a reply.
	explain func(status int, header http.Header, body []byte) *statusError
}

func newHTTPClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = stall
	t.MaxIdleConnsPerHost = parallel
	t.DisableCompression = true // ranges and checksums are of the bytes as stored
	return &http.Client{Transport: t}
}

// do sends a GET or HEAD and returns a reply with a good status; the caller
// closes its body.
func (c *client) do(ctx context.Context, method, url string, header http.Header) (*http.Response, error) {
	var last error
	for attempt := 0; attempt < patience(last); attempt++ {
		if attempt > 0 {
			if err := pause(ctx, c.pause, attempt, last); err != nil {
				return nil, last
			}
		}
		resp, err := c.once(ctx, method, url, header)
		if err == nil {
			return resp, nil
		}
		last = err
		if !temporary(err) || ctx.Err() != nil {
			break
		}
	}
	return nil, last
}

func (c *client) once(ctx context.Context, method, url string, header http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	maps.Copy(r.Header, header)
	if c.prepare != nil {
		if err := c.prepare(ctx, r); err != nil {
			return nil, err
		}
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // an error without its text is still one
	e := c.explain(resp.StatusCode, resp.Header, body)
	e.status = resp.StatusCode
	e.tellClocks(resp.Header.Get("Date"), time.Now())
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
		e.after = min(time.Duration(n)*time.Second, 10*time.Second)
	}
	return nil, e
}

// get returns the whole body of a reply.
func (c *client) get(ctx context.Context, url string, header http.Header) ([]byte, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	resp, err := c.do(ctx, http.MethodGet, url, header)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	if err != nil {
		return nil, nil, err
	}
	if len(body) > maxReply {
		return nil, nil, fmt.Errorf("the reply of the store is larger than %d bytes", maxReply)
	}
	return body, resp.Header, nil
}

// open returns the body of a ranged read.
func (c *client) open(ctx context.Context, url string, header http.Header, offset, length int64) (io.ReadCloser, error) {
	h := header.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	resp, err := c.once(ctx, http.MethodGet, url, h)
	if err != nil {
		return nil, changed(err)
	}
	// A store that ignores ranges sends all of it.
	if resp.StatusCode != http.StatusPartialContent && offset > 0 {
		if _, err := io.CopyN(io.Discard, resp.Body, offset); err != nil {
			resp.Body.Close()
			return nil, err
		}
	}
	return resp.Body, nil
}

// changed makes errChanged of the refusal of a read with a condition.
func changed(err error) error {
	if s := (*statusError)(nil); errors.As(err, &s) && (s.status == http.StatusPreconditionFailed || s.status == http.StatusNotFound) {
		return errChanged
	}
	return err
}

// pause waits before another attempt.
func pause(ctx context.Context, first time.Duration, attempt int, last error) error {
	d := min(first<<(attempt-1), maxPause)
	if s := (*statusError)(nil); errors.As(last, &s) && s.after > d {
		d = s.after
	}
	// Those who were refused together do not come back together.
	d += time.Duration(rand.Int64N(int64(d)))
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// patience is how many attempts a request gets in view of its last failure.
func patience(last error) int {
	var s *statusError
	if errors.As(last, &s) && (s.status == http.StatusTooManyRequests ||
		slices.Contains([]string{"SlowDown", "ServerBusy", "RequestLimitExceeded", "Throttling", "ThrottlingException"}, s.code)) {
		return throttled
	}
	return attempts
}

// temporary reports whether another attempt may succeed.
func temporary(err error) bool {
	var s *statusError
	var credentials *credentialError
	var disk *diskError
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, errChanged), errors.As(err, &credentials), errors.As(err, &disk):
		return false
	case errors.As(err, &s):
		return s.status == http.StatusRequestTimeout || s.status == http.StatusTooManyRequests || s.status >= 500
	}
	return true // the network
}

// credentialError is a failure to get credentials.
type credentialError struct{ err error }

func (e *credentialError) Error() string { return "no credentials: " + e.err.Error() }
func (e *credentialError) Unwrap() error { return e.err }

// failure makes an error of a store one of the server's. What may pass by
// itself is Unavailable.
func failure(what string, err error) error {
	if _, ok := errors.AsType[*backend.Error](err); ok {
		return err
	}
	var s *statusError
	code := backend.Internal
	switch {
	case errors.As(err, &s) && s.status == http.StatusNotFound:
		code = backend.NotFound
	case temporary(err), errors.Is(err, errChanged):
		code = backend.Unavailable
	}
	return backend.Errorf(code, "%s: %v", what, err)
}
