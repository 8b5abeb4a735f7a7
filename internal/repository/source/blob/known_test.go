package blob

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
)

// line is the way to a bucket: it can be cut, and counts listings.
type line struct {
	*bucket
	cut      atomic.Bool
	listings atomic.Int64
}

func (l *line) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if l.cut.Load() {
		panic(http.ErrAbortHandler)
	}
	if r.URL.Query().Has("list-type") {
		l.listings.Add(1)
	}
	l.bucket.ServeHTTP(w, r)
}

func lineTo(t *testing.T, objects map[string]string) (*line, string) {
	t.Helper()
	noCredentials(t)
	l := &line{bucket: &bucket{objects: objects}}
	s := httptest.NewServer(l)
	t.Cleanup(s.Close)
	return l, s.URL
}

// TestOneListing: a start asks the store once for all models.
func TestOneListing(t *testing.T) {
	const models = 30
	objects := map[string]string{"top/file": "x", "other/x": "x"}
	var want []string
	for i := range models {
		name := fmt.Sprintf("m%02d", i)
		want = append(want, name)
		objects["top/"+name+"/config.pbtxt"], objects["top/"+name+"/1/x"] = "c", "x"
	}
	l, url := lineTo(t, objects)
	r := openAt(t, url, "")
	l.listings.Store(0)
	release := r.Hold()
	marks, err := r.Marks(t.Context())
	if err != nil || !slices.Equal(slices.Sorted(maps.Keys(marks)), want) {
		t.Fatal(marks, err)
	}
	names, err := r.List(t.Context())
	if err != nil || !slices.Equal(names, want) {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if ok, err := r.Has(t.Context(), name); !ok || err != nil {
			t.Fatal(name, ok, err)
		}
		d, err := r.Fetch(t.Context(), name)
		if err != nil || len(files(t, d.Path)) != 3 {
			t.Fatal(name, err)
		}
	}
	if ok, err := r.Has(t.Context(), "m9"); ok || err != nil {
		t.Error(ok, err)
	}
	if n := l.listings.Load(); n != 1 {
		t.Errorf("%d listings, want 1", n)
	}
	release()
	l.mu.Lock()
	l.objects["top/new/1/x"] = "x"
	l.mu.Unlock()
	if ok, err := r.Has(t.Context(), "new"); !ok || err != nil {
		t.Error("after the start what is new is seen", ok, err)
	}
	// What has changed since the listing is listed anew.
	release = r.Hold()
	defer release()
	if _, err := r.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	l.objects["top/new/1/x"] = "changed"
	l.mu.Unlock()
	d, err := r.Fetch(t.Context(), "new")
	if err != nil || files(t, d.Path)["1/x"] != "changed" {
		t.Error(err)
	}
}

// TestCacheStandsIn: a store that cannot be reached at the start is stood in for by
// the cache, until it is back; what is not whole in the cache is not served.
func TestCacheStandsIn(t *testing.T) {
	cache := t.TempDir()
	l, url := lineTo(t, map[string]string{
		"top/m/": "", "top/m/config.pbtxt": "c", "top/m/1/x": "x", "top/m/2/": "", "top/n/1/x": "n", "top/o/1/x": "o",
	})
	r := openAt(t, url, cache)
	before, err := r.Marks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"m", "n"} {
		if _, err := r.Fetch(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}

	l.cut.Store(true)
	if _, err := Open(t.Context(), "s3://"+url+"/bucket/top", Options{CacheDir: t.TempDir(), pause: time.Millisecond}); err == nil {
		t.Fatal("an empty cache stands in for a store")
	}
	r = openAt(t, url, cache)
	if stands, err := r.Away(); !stands || !strings.Contains(err.Error(), "bucket/top") {
		t.Error(stands, err)
	}
	names, err := r.List(t.Context())
	marks, failed := r.Marks(t.Context())
	if !slices.Equal(names, []string{"m", "n"}) || err != nil || failed != nil {
		t.Error(names, err, failed)
	}
	if len(marks) != 2 || marks["m"] != before["m"] || marks["n"] != before["n"] {
		t.Error(marks, before)
	}
	d, err := r.Fetch(t.Context(), "m")
	if err != nil || len(files(t, d.Path)) != 4 || files(t, d.Path)["1/x"] != "x" {
		t.Fatal(err)
	}
	if ok, err := r.Has(t.Context(), "o"); ok || backend.AsError(err).Code != backend.Unavailable {
		t.Error(ok, err)
	}

	l.cut.Store(false)
	r.away.tried = time.Now().Add(-time.Hour)
	marks, err = r.Marks(t.Context())
	if _, away := r.Away(); away != nil || err != nil || !maps.Equal(marks, before) {
		t.Error(away, marks, err)
	}
	if ok, err := r.Has(t.Context(), "o"); !ok || err != nil {
		t.Error(ok, err)
	}
	// A model that the store has no more is not brought back by the cache.
	l.mu.Lock()
	delete(l.objects, "top/n/1/x")
	l.mu.Unlock()
	if names, err = r.List(t.Context()); err != nil || !slices.Equal(names, []string{"m", "o"}) {
		t.Error(names, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	l.cut.Store(true)
	r = openAt(t, url, cache)
	if names, err := r.List(t.Context()); err != nil || !slices.Equal(names, []string{"m"}) {
		t.Error(names, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}

	// Damage of the cache takes away what is damaged.
	objects, _ := filepath.Glob(filepath.Join(cache, "*", "objects", "m", "*"))
	if len(objects) != 2 || os.Truncate(objects[0], 0) != nil {
		t.Fatal(objects)
	}
	if _, err := Open(t.Context(), "s3://"+url+"/bucket/top", Options{CacheDir: cache, pause: time.Millisecond}); err == nil {
		t.Error("a damaged cache stands in for a store")
	}
}

// TestPatient: a store that cannot be reached is opened all the same, and used once
// it is there; one that refuses is not.
func TestPatient(t *testing.T) {
	l, url := lineTo(t, map[string]string{"top/m/1/x": "x"})
	l.cut.Store(true)
	r, err := Open(t.Context(), "s3://"+url+"/bucket/top", Options{Patient: true, pause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if stands, err := r.Away(); stands || err == nil {
		t.Error(stands, err)
	}
	if _, err := r.Fetch(t.Context(), "m"); backend.AsError(err).Code != backend.Unavailable {
		t.Error(err)
	}
	l.cut.Store(false)
	if _, err := r.Fetch(t.Context(), "m"); err != nil {
		t.Error(err)
	}
	if _, err := r.Away(); err != nil {
		t.Error(err)
	}
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer refuses.Close()
	if _, err := Open(t.Context(), "s3://"+refuses.URL+"/bucket/top", Options{Patient: true, pause: time.Millisecond}); err == nil {
		t.Error("a store that refuses is opened")
	}
}

// TestThrottled: a store that asks for fewer requests gets more time than one that
// fails.
func TestThrottled(t *testing.T) {
	l, url := lineTo(t, map[string]string{"top/m/1/x": "x"})
	r := openAt(t, url, "")
	l.fault = func(w http.ResponseWriter, _, _ string, read int) bool {
		if read >= throttled {
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, "<Error><Code>SlowDown</Code></Error>")
		return true
	}
	if _, err := r.Fetch(t.Context(), "m"); err != nil || l.reads != throttled {
		t.Error(l.reads, err)
	}
}

// FuzzListing: whatever a file of the cache holds, no object outside of the model is
// taken from it.
func FuzzListing(f *testing.F) {
	f.Add([]byte(`[{"key":"top/m/1/","size":0,"etag":"\"e\""}]`))
	f.Add([]byte(`[{"key":"top/other/1/"},{"key":"top/m/../x/"}]`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c := &cache{dir: t.TempDir()}
		if err := os.Mkdir(filepath.Join(c.dir, listings), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(c.dir, listings, "m.json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		k := c.kept("top/")
		if k == nil {
			return
		}
		for _, o := range k.objects {
			if !strings.HasPrefix(o.key, "top/m/") {
				t.Errorf("%q", o.key)
			}
		}
	})
}
