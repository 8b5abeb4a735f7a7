package auth

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/ledger"
)

// Quota bounds what a key may use. Zero means without bound.
type Quota struct {
	// RequestsPerSecond is the long-term rate of requests, Burst how many may come
	// at once after a pause; default as many as come in a second, at least 1.
	RequestsPerSecond float64
	Burst             int64
	// ConcurrentRequests bounds the requests in the server, QueuedBytes the bytes
	// of their inputs, and once more those of answers that are not read.
	ConcurrentRequests, QueuedBytes int64
	// TokensPerMinute bounds the tokens that language models read and write for
	// OpenAI's routes. They are known afterwards: a request is refused while those of
	// the ones before are more.
	TokensPerMinute int64
}

// reasons why a request was refused, as the metrics name them.
type reason uint8

const (
	byScope reason = iota
	byModel
	byRate
	byConcurrency
	byBytes
	byTokens
	reasonCount
)

var reasonNames = [reasonCount]string{"scope", "model", "rate", "concurrency", "bytes", "tokens"}

// Usage counts what one key uses. It outlives a new version of the file: what
// is in flight goes on counting.
type Usage struct {
	name  string
	quota atomic.Pointer[Quota]
	// next is when the bucket of the rate is full again, in ns of backend.Now: the
	// generic cell rate algorithm, which needs one number.
	next            atomic.Int64
	spent           atomic.Int64 // the same of tokens
	requests, bytes atomic.Int64
	share           ledger.Share
	admitted        atomic.Uint64
	refused         [reasonCount]atomic.Uint64
}

// Share is what the key holds of the ledger: answers that its clients have not
// read yet, and what stands in the reserves for its small requests.
func (c *Caller) Share() *ledger.Share {
	if c == nil || c.usage == nil {
		return nil
	}
	return &c.usage.share
}

// Name is the name of the key.
func (u *Usage) Name() string { return u.name }

// Leave gives back what a request of so many bytes has taken; less than none
// is none.
func (u *Usage) Leave(bytes int64) {
	u.requests.Add(-1)
	u.bytes.Add(-max(0, bytes))
}

// Grow adds bytes to those of a request that is in the server, or says why not.
// Fewer than none are given back.
func (u *Usage) Grow(bytes int64) *backend.Error {
	if n, most := u.bytes.Add(bytes), u.quota.Load().QueuedBytes; most > 0 && n > most && bytes > 0 {
		u.bytes.Add(-bytes)
		return u.tooMany(bytes, most)
	}
	return nil
}

// tooMany refuses bytes.
func (u *Usage) tooMany(bytes, most int64) *backend.Error {
	u.refused[byBytes].Add(1)
	e := backend.Errorf(backend.ResourceExhausted, "%d bytes of input are more than key '%s' may queue at present, its maximum is %d bytes",
		bytes, u.name, most)
	if bytes <= most { // else it will never fit
		e.RetryAfter = time.Second
	}
	return e
}

// enter takes a request's share, at now ns of backend.Now, or says why not. Bytes
// of it have come; the declared ones, which are as many or more, have to fit.
func (u *Usage) enter(q *Quota, bytes, declared, now int64) *backend.Error {
	if n := u.requests.Add(1); q.ConcurrentRequests > 0 && n > q.ConcurrentRequests {
		u.requests.Add(-1)
		u.refused[byConcurrency].Add(1)
		e := backend.Errorf(backend.ResourceExhausted, "key '%s' has its maximum of %d requests in the server", u.name, q.ConcurrentRequests)
		e.RetryAfter = time.Second
		return e
	}
	if n := u.bytes.Add(bytes); q.QueuedBytes > 0 && declared-bytes > q.QueuedBytes-n {
		u.Leave(bytes)
		return u.tooMany(declared, q.QueuedBytes)
	}
	if wait := u.spent.Load() - now - int64(time.Minute); q.TokensPerMinute > 0 && wait >= 0 {
		u.Leave(bytes)
		u.refused[byTokens].Add(1)
		e := backend.Errorf(backend.ResourceExhausted, "key '%s' has used more than its %d tokens per minute", u.name, q.TokensPerMinute)
		e.RetryAfter = max(time.Second, time.Duration(wait))
		return e
	}
	if wait := u.take(q, now); wait > 0 {
		u.Leave(bytes)
		u.refused[byRate].Add(1)
		e := backend.Errorf(backend.ResourceExhausted, "key '%s' has sent more than its %v requests per second", u.name, q.RequestsPerSecond)
		e.RetryAfter = wait
		return e
	}
	u.admitted.Add(1)
	return nil
}

// mostDebt is how long one request, however large, keeps its key waiting at most.
const mostDebt = time.Hour

// Spend counts tokens that have been read and written for the caller's key.
func (c *Caller) Spend(tokens int64) {
	if c == nil || c.usage == nil || tokens <= 0 {
		return
	}
	c.usage.spend(tokens, backend.Now())
}

func (u *Usage) spend(tokens, now int64) {
	q := u.quota.Load()
	if q.TokensPerMinute <= 0 {
		return
	}
	took := min(float64(tokens)/float64(q.TokensPerMinute)*float64(time.Minute), float64(mostDebt))
	for {
		spent := u.spent.Load()
		next := min(max(spent, now)+int64(took), now+int64(time.Minute+mostDebt))
		if u.spent.CompareAndSwap(spent, next) {
			return
		}
	}
}

// take takes one request from the bucket, or returns how long to wait.
func (u *Usage) take(q *Quota, now int64) time.Duration {
	if q.RequestsPerSecond <= 0 {
		return 0
	}
	interval := int64(math.Ceil(1e9 / q.RequestsPerSecond))
	room := interval * (q.burst() - 1)
	for {
		next := u.next.Load()
		if wait := next - room - now; wait > 0 {
			return time.Duration(wait)
		}
		if u.next.CompareAndSwap(next, max(next, now)+interval) {
			return 0
		}
	}
}

func (q *Quota) burst() int64 {
	if q.Burst > 0 {
		return q.Burst
	}
	return max(1, int64(math.Ceil(q.RequestsPerSecond)))
}

// Numbers are the counts of one key, for the metrics.
type Numbers struct {
	Key             string
	Requests, Bytes int64 // in the server
	Answers         int64 // bytes that are not read
	Admitted        uint64
	Refused         map[string]uint64 // by reason
}

func (u *Usage) numbers() Numbers {
	n := Numbers{
		Key: u.name, Requests: u.requests.Load(), Bytes: u.bytes.Load(),
		Answers: u.share.Held(ledger.Out) + u.share.Held(ledger.OutReserve), Admitted: u.admitted.Load(), Refused: map[string]uint64{},
	}
	for i, name := range reasonNames {
		n.Refused[name] = u.refused[i].Load()
	}
	return n
}
