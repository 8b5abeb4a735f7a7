package blob

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/nesotest"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// bucket is a small S3 server whose answers can be made to fail.
type bucket struct {
	mu      sync.Mutex
	objects map[string]string
	ranges  []string // as asked, with the key
	// fault sees each read; it may answer by itself.
	fault func(w http.ResponseWriter, key, asked string, read int) bool
	reads int
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := strings.TrimPrefix(r.URL.Path, "/bucket/")
	if r.URL.Query().Has("list-type") {
		b.list(w, r)
		return
	}
	content, ok := b.objects[key]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	tag := etag(content)
	if m := r.Header.Get("If-Match"); m != "" && m != tag {
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	}
	if r.Method == http.MethodGet {
		b.reads++
		b.ranges = append(b.ranges, key+" "+r.Header.Get("Range"))
		if b.fault != nil && b.fault(w, key, r.Header.Get("Range"), b.reads) {
			return
		}
	}
	w.Header().Set("ETag", tag)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
}

func (b *bucket) list(w http.ResponseWriter, r *http.Request) {
	fmt.Fprint(w, "<ListBucketResult>")
	prefixes := map[string]bool{}
	for key, content := range b.objects {
		rest, ok := strings.CutPrefix(key, r.URL.Query().Get("prefix"))
		if !ok {
			continue
		}
		if first, _, deep := strings.Cut(rest, "/"); deep && r.URL.Query().Get("delimiter") == "/" {
			if !prefixes[first] {
				prefixes[first] = true
				fmt.Fprintf(w, "<CommonPrefixes><Prefix>%s/</Prefix></CommonPrefixes>", strings.TrimSuffix(key, rest)+first)
			}
			continue
		}
		fmt.Fprintf(w, "<Contents><Key>%s</Key><ETag>%s</ETag><Size>%d</Size><LastModified>2026-01-02T03:04:05Z</LastModified></Contents>", key,
			etag(content), len(content))
	}
	fmt.Fprint(w, "</ListBucketResult>")
}

func etag(content string) string {
	sum := md5.Sum([]byte(content))
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

// serve starts b and opens the repository in it.
func serve(t *testing.T, b *bucket, cache string) *Repository {
	t.Helper()
	s := httptest.NewServer(b)
	t.Cleanup(s.Close)
	return openAt(t, s.URL, cache)
}

func openAt(t *testing.T, url, cache string) *Repository {
	t.Helper()
	r, err := Open(t.Context(), "s3://"+url+"/bucket/top", Options{CacheDir: cache, pause: time.Millisecond, getenv: func(name string) string {
		return map[string]string{"TRITON_AWS_MOUNT_DIRECTORY": t.TempDir()}[name]
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// noCredentials keeps the machine's own out of the tests.
func noCredentials(t *testing.T) {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
		"AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
}

// large returns n bytes in which no two kilobytes are the same.
func large(n int) string {
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "%01024d", b.Len())
	}
	return b.String()[:n]
}

// files returns what lies below dir.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if d.IsDir() {
			found[filepath.ToSlash(rel)+"/"] = ""
			return nil
		}
		text, err := os.ReadFile(path)
		found[filepath.ToSlash(rel)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestFetch(t *testing.T) {
	noCredentials(t)
	b := &bucket{objects: map[string]string{
		"top/m/config.pbtxt": "config", "top/m/1/model.bin": large(3*chunk + 5), "top/m/2/": "", "top/m/1/empty": "", "top/n/1/x": "x",
		"top/.hidden/x": "x", "top/file": "x", "other/x": "x",
	}}
	// Each read breaks off once: it goes on where it came.
	broken := map[string]bool{}
	b.fault = func(w http.ResponseWriter, key, asked string, _ int) bool {
		if broken[key] || !strings.HasSuffix(key, ".bin") {
			return false
		}
		broken[key] = true
		w.Header().Set("Content-Length", strconv.Itoa(chunk))
		w.WriteHeader(http.StatusPartialContent)
		var from int
		fmt.Sscanf(asked, "bytes=%d-", &from)
		fmt.Fprint(w, b.objects[key][from:min(from+1000, len(b.objects[key]))])
		return true
	}
	r := serve(t, b, "")
	names, err := r.List(t.Context())
	if err != nil || !slices.Equal(names, []string{"m", "n"}) {
		t.Fatal(names, err)
	}
	for name, want := range map[string]bool{
		"m": true, "n": true, "file": false, ".hidden": true, ".other": false, ".": false, "..": false,
		"": false, "x": false,
	} {
		if ok, err := r.Has(t.Context(), name); ok != want || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
	d, err := r.Fetch(t.Context(), "m")
	if err != nil {
		t.Fatal(err)
	}
	got := files(t, d.Path)
	if len(got) != 5 || got["config.pbtxt"] != "config" || got["1/model.bin"] != b.objects["top/m/1/model.bin"] ||
		filepath.Base(d.Path) != "m" {
		t.Errorf("%v", len(got))
	}
	if _, ok := got["2/"]; !ok {
		t.Error("an empty directory is missing")
	}
	reads := b.reads
	again, err := r.Fetch(t.Context(), "m")
	if err != nil || again.Path == d.Path || again.Origin != d.Origin || b.reads != reads {
		t.Error(again, err, b.reads, reads)
	}
	if err := d.Release(); err != nil {
		t.Error(err)
	}
	if len(files(t, again.Path)) != 5 {
		t.Error("one use took the other's files")
	}
	// What changes is another mark, and another time of the file.
	before, err := r.Marks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	b.objects["top/m/config.pbtxt"] = "CONFIG"
	b.mu.Unlock()
	after, err := r.Marks(t.Context())
	if err != nil || before["m"] == after["m"] || before["n"] != after["n"] || len(after) != 2 {
		t.Error(before, after, err)
	}
	third, err := r.Fetch(t.Context(), "m")
	if err != nil || files(t, third.Path)["config.pbtxt"] != "CONFIG" || files(t, again.Path)["config.pbtxt"] != "config" {
		t.Error(err)
	}
	old, _ := os.Stat(filepath.Join(again.Path, "config.pbtxt"))
	now, _ := os.Stat(filepath.Join(third.Path, "config.pbtxt"))
	if old.ModTime().Equal(now.ModTime()) {
		t.Error("another content of the same size and second has the same time")
	}
	if _, err := r.Fetch(t.Context(), "nope"); backend.AsError(err).Code != backend.NotFound {
		t.Error(err)
	}
}

// noted waits until so many ranges below dir are noted as arrived.
func noted(t *testing.T, dir string, want int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		got := 0
		_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error { // files come and go
			if strings.HasSuffix(path, doneSuffix) {
				text, _ := os.ReadFile(path)
				got += strings.Count(string(text), "\n")
			}
			return nil
		})
		if got >= want {
			return
		}
	}
	t.Errorf("%d ranges have not arrived", want)
}

// TestResume: what a server has brought is not read again by the next one, and
// nothing half-written is seen meanwhile.
func TestResume(t *testing.T) {
	noCredentials(t)
	cache := t.TempDir()
	b := &bucket{objects: map[string]string{"top/m/1/model.bin": large(4 * chunk)}}
	third := fmt.Sprintf("bytes=%d-%d", 2*chunk, 3*chunk-1)
	b.fault = func(w http.ResponseWriter, _, asked string, _ int) bool {
		if asked == third {
			b.mu.Unlock()
			noted(t, cache, 3) // its failure ends those that have not arrived
			b.mu.Lock()
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	}
	s := httptest.NewServer(b)
	defer s.Close()
	r := openAt(t, s.URL, cache)
	_, err := r.Fetch(t.Context(), "m")
	if e := backend.AsError(err); err == nil || e.Code != backend.Unavailable {
		t.Fatal(err)
	}
	asked := 0
	for _, a := range b.ranges {
		if strings.HasSuffix(a, third) {
			asked++
		}
	}
	if asked != attempts {
		t.Errorf("%d attempts, want %d", asked, attempts)
	}
	for name := range files(t, cache) {
		if strings.Contains(name, "objects/m/") && !strings.Contains(name, partSuffix) && !strings.HasSuffix(name, "/") ||
			strings.HasSuffix(name, "model.bin") {
			t.Errorf("%s is to be seen", name)
		}
	}
	done := 4 - 1
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	b.fault, b.ranges = nil, nil
	b.mu.Unlock()
	r = openAt(t, s.URL, cache)
	d, err := r.Fetch(t.Context(), "m")
	if err != nil || files(t, d.Path)["1/model.bin"] != b.objects["top/m/1/model.bin"] {
		t.Fatal(err)
	}
	if len(b.ranges) > 4-done+1 || !slices.Contains(b.ranges, "top/m/1/model.bin "+third) {
		t.Errorf("read again: %v", b.ranges)
	}
	for name := range files(t, cache) {
		if strings.Contains(name, partSuffix) {
			t.Errorf("%s is left", name)
		}
	}
}

// TestWrongContent: a download that is not what the store says it is fails the
// load, and is not kept.
func TestWrongContent(t *testing.T) {
	noCredentials(t)
	b := &bucket{objects: map[string]string{"top/m/1/x": "right"}}
	b.fault = func(w http.ResponseWriter, _, _ string, _ int) bool {
		fmt.Fprint(w, "wrong")
		return true
	}
	cache := t.TempDir()
	r := serve(t, b, cache)
	for range 2 {
		_, err := r.Fetch(t.Context(), "m")
		if err == nil || !strings.Contains(err.Error(),
			"top/m/1/x: the MD5 checksum of the download is 2bda2998d9b0ee197da142a0447f6725, the store says 7c4f29407893c334a6cb7a87bf045c0d") {
			t.Fatal(err)
		}
	}
	if b.reads != 2 {
		t.Errorf("%d reads", b.reads)
	}
	for name := range files(t, cache) {
		if strings.Contains(name, "objects/m/") && !strings.HasSuffix(name, "/") {
			t.Errorf("%s is kept", name)
		}
	}
}

// TestChangesWhileRead: what is changed during a fetch is fetched as it is then.
func TestChangesWhileRead(t *testing.T) {
	noCredentials(t)
	b := &bucket{objects: map[string]string{"top/m/1/x": "old"}}
	b.fault = func(w http.ResponseWriter, key, _ string, read int) bool {
		if read > 1 {
			return false
		}
		b.objects[key] = "new, and longer"
		w.WriteHeader(http.StatusPreconditionFailed)
		return true
	}
	r := serve(t, b, "")
	d, err := r.Fetch(t.Context(), "m")
	if err != nil || files(t, d.Path)["1/x"] != "new, and longer" {
		t.Error(err)
	}
}

func TestNamesThatLeadOut(t *testing.T) {
	noCredentials(t)
	for _, name := range []string{"top/m/../x", "top/m//x", "top/m/1/../../../x", `top/m/a\b`} {
		b := &bucket{objects: map[string]string{"top/m/1/x": "x", name: "x"}}
		_, err := serve(t, b, "").Fetch(t.Context(), "m")
		if err == nil || !strings.Contains(err.Error(), "holds an object whose name is no path of a file") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A name that is a file and a directory cannot be put on a disk.
	b := &bucket{objects: map[string]string{"top/m/1": "x", "top/m/1/x": "x"}}
	if _, err := serve(t, b, "").Fetch(t.Context(), "m"); err == nil {
		t.Error("no error")
	}
}

// TestClocksApart checks that a refusal says what the clocks have to do with it, the
// same at each look.
func TestClocksApart(t *testing.T) {
	noCredentials(t)
	const refused = "Unable to create S3 filesystem client. Check account credentials. "
	const skewed = `<Error><Code>RequestTimeTooSkewed</Code><Message>The difference is too large.</Message></Error>`
	for _, c := range []struct {
		name   string
		status int
		body   string
		ahead  time.Duration // of the store's clock
		want   string
	}{
		{"behind", 403, skewed, 2 * time.Hour, "Exception: 'RequestTimeTooSkewed' Message: 'The difference is too large. " +
			"This machine's clock is 2h0m0s behind the store's, so that its signatures are not valid.'"},
		{"ahead", 403, "", -24 * time.Hour, "Exception: 'HTTP status 403' Message: 'This machine's clock is 24h0m0s ahead of the store's, " +
			"so that its signatures are not valid.'"},
		{"agree", 403, skewed, time.Minute, "Exception: 'RequestTimeTooSkewed' Message: 'The difference is too large.'"},
		{"not of signatures", 404, "", 2 * time.Hour, "Exception: 'HTTP status 404' Message: ''"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", time.Now().Add(c.ahead).UTC().Format(http.TimeFormat))
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
			}))
			defer s.Close()
			_, err := Open(t.Context(), "s3://"+s.URL+"/bucket/top", Options{getenv: func(string) string { return "" }})
			if want := refused + c.want + " (s3://" + s.URL + "/bucket/top)"; err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}
