package auth

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend"
)

// keysOf makes keys whose secret is their name.
func keysOf(t *testing.T, entries ...Entry) *Keys {
	t.Helper()
	keys := &Keys{}
	for _, e := range entries {
		e.SHA256 = digest(e.Name)
		k, err := e.Key()
		if err != nil {
			t.Fatal(err)
		}
		keys.List = append(keys.List, k)
	}
	return keys
}

func words(err *backend.Error) string {
	if err == nil {
		return "ok"
	}
	text := err.Code.String()
	if err.RetryAfter > 0 {
		text += fmt.Sprintf(" in %v", err.RetryAfter)
	}
	return text
}

func TestOperations(t *testing.T) {
	g := NewGuard(keysOf(t,
		Entry{Name: "i"}, Entry{Name: "r", Scopes: []string{"read"}}, Entry{Name: "m", Scopes: []string{"manage"}},
		Entry{Name: "some", Scopes: []string{"infer", "read", "manage"}, Models: []string{"bert-*", "digits"}},
	), nil)
	guarded := keysOf(t, Entry{Name: "i"})
	guarded.GuardedHealth = true
	strict := NewGuard(guarded, nil)
	for _, c := range []struct {
		guard      *Guard
		key        string
		op         Operation
		model      string
		want, text string
	}{
		{guard: nil, key: "", op: Control, want: "ok"},
		{guard: g, key: "", op: Probe, want: "ok"},
		{guard: g, key: "wrong", op: Probe, want: "ok"},
		{guard: strict, key: "", op: Probe, want: "Unauthenticated", text: textMissing},
		{guard: strict, key: "i", op: Probe, want: "ok"},
		{guard: g, key: "", op: Inspect, want: "Unauthenticated", text: textMissing},
		{guard: g, key: "wrong", op: Inference, want: "Unauthenticated", text: textUnknown},
		{guard: g, key: "i", op: Inference, model: "x", want: "ok"},
		{guard: g, key: "i", op: Inspect, model: "x", want: "ok"},
		{guard: g, key: "i", op: Observe, want: "Permission denied", text: "key 'i' may not do this: it needs the scope read or manage"},
		{guard: g, key: "i", op: Control, model: "x", want: "Permission denied", text: "key 'i' may not do this: it needs the scope manage"},
		{guard: g, key: "r", op: Inference, model: "x", want: "Permission denied", text: "key 'r' may not do this: it needs the scope infer"},
		{guard: g, key: "r", op: Metrics, want: "ok"},
		{guard: g, key: "m", op: Observe, want: "ok"},
		{guard: g, key: "m", op: Inference, model: "x", want: "Permission denied", text: "key 'm' may not do this: it needs the scope infer"},
		{guard: g, key: "some", op: Inference, model: "bert-large", want: "ok"},
		{guard: g, key: "some", op: Inference, model: "digits2", want: "Permission denied", text: "key 'some' is not for model 'digits2'"},
		{guard: g, key: "some", op: Control, model: "other", want: "Permission denied", text: "key 'some' is not for model 'other'"},
		{
			guard: g, key: "some", op: Metrics, want: "Permission denied",
			text: "key 'some' is limited to some models, and the metrics speak of all",
		},
	} {
		_, err := c.guard.Admit("Bearer "+c.key, "", c.op, c.model)
		if words(err) != c.want || err != nil && err.Message != c.text {
			t.Errorf("key %q, operation %d, model %q: got %s (%v), want %s (%s)", c.key, c.op, c.model, words(err), err, c.want, c.text)
		}
	}
}

func TestPresented(t *testing.T) {
	for _, c := range []struct{ authorization, apiKey, want string }{
		{"", "", ""},
		{"Bearer a", "", "a"},
		{"bearer  a ", "b", "a"},
		{"", "b", "b"},
		{"Basic a", "b", "b"},
		{"Bearer ", "b", "b"},
		{"a", "", ""},
	} {
		if got := presented(c.authorization, c.apiKey); got != c.want {
			t.Errorf("presented(%q, %q) = %q, want %q", c.authorization, c.apiKey, got, c.want)
		}
	}
}

func TestQuota(t *testing.T) {
	u := &Usage{name: "k"}
	q := &Quota{RequestsPerSecond: 2, Burst: 3, ConcurrentRequests: 2, QueuedBytes: 100}
	u.quota.Store(q)
	const second = int64(time.Second)
	for i, c := range []struct {
		at    int64
		bytes int64 // below 0: leave with these
		want  string
	}{
		{second, 60, "ok"},
		{second, 60, "Resource exhausted in 1s"}, // bytes
		{second, 101, "Resource exhausted"},      // never
		{second, 40, "ok"},
		{second, 0, "Resource exhausted in 1s"}, // concurrency
		{second, -60, ""},
		{second, -40, ""},
		{second, 0, "ok"},
		{second, 0, "Resource exhausted in 500ms"}, // the burst is used up
		{second + second/2, 0, "ok"},
		{second + second/2, 0, "Resource exhausted in 1s"}, // concurrency comes first
	} {
		if c.bytes < 0 {
			u.Leave(-c.bytes)
			continue
		}
		if got := words(u.enter(q, c.bytes, c.bytes, c.at)); got != c.want {
			t.Errorf("step %d: got %s, want %s", i, got, c.want)
		}
	}
	if n := u.numbers(); n.Requests != 2 || n.Bytes != 0 || n.Admitted != 4 || n.Refused["bytes"] != 2 || n.Refused["concurrency"] != 2 ||
		n.Refused["rate"] != 1 {
		t.Errorf("numbers are %+v", n)
	}
	if u.Grow(90) != nil || words(u.Grow(20)) != "Resource exhausted in 1s" || u.numbers().Bytes != 90 {
		t.Errorf("growth: %+v", u.numbers())
	}
}

func TestQuotaOfTokens(t *testing.T) {
	u := &Usage{name: "k"}
	q := &Quota{TokensPerMinute: 60}
	u.quota.Store(q)
	const second = int64(time.Second)
	for i, c := range []struct {
		at, spend int64
		want      string
	}{
		{0, 59, "ok"}, // the first: before it nothing is spent
		{0, 1, "ok"},
		{0, 0, "Resource exhausted in 1s"}, // a minute's tokens are gone; one comes back in a second
		{2 * second, 30, "ok"},
		{2 * second, 0, "Resource exhausted in 28s"}, // tokens are known afterwards: it has a debt
		{31 * second, 1 << 50, "ok"},
		{31 * second, 0, "Resource exhausted in 59m59s"}, // however many, an hour from where it stood
	} {
		got := words(u.enter(q, 0, 0, c.at))
		if got != c.want {
			t.Errorf("step %d: got %s, want %s", i, got, c.want)
		}
		u.spend(c.spend, c.at)
	}
	if n := u.numbers(); n.Refused["tokens"] != 3 {
		t.Errorf("numbers are %+v", n)
	}
}

// TestRateNeverExceeded compares the bucket with a count over every window.
func TestRateNeverExceeded(t *testing.T) {
	u := &Usage{name: "k"}
	q := &Quota{RequestsPerSecond: 10, Burst: 5}
	var admitted int
	const tenth = int64(time.Second) / 10
	for at := tenth; at <= 100*tenth; at += tenth / 7 {
		if u.enter(q, 0, 0, at) == nil {
			admitted++
		}
	}
	if admitted < 102 || admitted > 104 { // 5 at once, then one in each tenth, as the steps fall
		t.Errorf("%d requests were admitted in 9.9 s at 10 a second and 5 at once", admitted)
	}
}

// TestReplaceKeepsUse has a stream outlive its key.
func TestReplaceKeepsUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := keysOf(t, Entry{Name: "a", ConcurrentRequests: 1}, Entry{Name: "b"})
		next := first
		var g *Guard
		g = NewGuard(first, func() {
			if next != first {
				g.Replace(next)
			}
		})
		a, err := g.Admit("", "a", Inference, "")
		b, err2 := g.Admit("", "b", Inference, "")
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		use, err := a.Enter("m", 10, 10)
		if err != nil {
			t.Fatal(err)
		}
		next = keysOf(t, Entry{Name: "a", ConcurrentRequests: 1, Models: []string{"m"}})
		time.Sleep(2 * refreshEvery)
		if _, err := a.Enter("m", 10, 10); words(err) != "Resource exhausted in 1s" {
			t.Errorf("what is in flight does not count for the new file: %s", words(err))
		}
		if _, err := a.Enter("n", 10, 10); words(err) != "Permission denied" {
			t.Errorf("the new file's models do not hold for a stream: %s", words(err))
		}
		if _, err := b.Enter("m", 10, 10); words(err) != "Unauthenticated" {
			t.Errorf("a stream goes on with a key that is gone: %s", words(err))
		}
		use.Leave(10)
		if _, err := a.Enter("m", 10, 10); err != nil {
			t.Error(err)
		}
	})
}

func TestConcurrentQuota(t *testing.T) {
	g := NewGuard(keysOf(t, Entry{Name: "a", ConcurrentRequests: 3, QueuedBytes: 30}), nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 2000 {
				c, _ := g.Admit("", "a", Inference, "")
				if u, err := c.Enter("m", 10, 10); err == nil {
					if n := u.requests.Load(); n < 1 {
						t.Error("a request that is in does not count")
					}
					u.Leave(10)
				}
			}
		})
	}
	wg.Wait()
	if n := g.Snapshot().Keys[0]; n.Requests != 0 || n.Bytes != 0 || n.Admitted == 0 {
		t.Errorf("after all have left: %+v", n)
	}
}

// The goroutines of one stream share its caller while the file changes.
func TestCallerIsShared(t *testing.T) {
	g := NewGuard(keysOf(t, Entry{Name: "a"}), nil)
	c, err := g.Admit("", "a", Inference, "")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				if err := c.May(Inference, "m"); err != nil {
					t.Error(err)
				}
				if u, err := c.Enter("m", 1, 1); err != nil || !c.Sees("m") || c.Share() == nil {
					t.Error(err)
				} else {
					u.Leave(1)
				}
			}
		})
	}
	for range 500 {
		g.Replace(keysOf(t, Entry{Name: "a"}))
	}
	wg.Wait()
	g.Replace(keysOf(t, Entry{Name: "b"}))
	if err := c.May(Inference, "m"); words(err) != "Unauthenticated" {
		t.Errorf("goes on with a key that is gone: %s", words(err))
	}
}
