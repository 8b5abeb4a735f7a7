package transport

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// spelled answers with the names of the fields as Fields gives them, those that
// begin with x.
func spelled(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	names := []string{}
	if all := Fields(r); all == nil {
		names = append(names, "unknown")
	} else {
		for name, value := range all {
			if strings.HasPrefix(strings.ToLower(name), "x") {
				names = append(names, name+"="+value[:min(len(value), 3)])
			}
		}
	}
	w.Header()["Content-Type"] = []string{"text/plain"}
	_, _ = io.WriteString(w, strings.Join(names, " "))
}

const chunked = "3\r\nabc\r\n0\r\n\r\n"

// A handler learns how the client spells the names of fields, of each request that
// comes when the last one has been answered.
func TestSpelling(t *testing.T) {
	long := strings.Repeat("v", 5000)
	requests := []struct{ text, want string }{
		{post("/m/infer", "Host: h", "x-ONE: 1", "Content-Length: 3") + "abc", "x-ONE=1"},
		{post("/m/other", "Host: h", "X-two: 2", "x-TWO: 3", "Content-Length: 0"), "X-two=2 x-TWO=3"},
		{post("/m/infer", "Host: h", "x-LONG: "+long, "x-b: 1", "Content-Length: 3") + "abc", "x-LONG=vvv x-b=1"},
		{post("/m/infer?q", "Host: h", "x-longER: "+long+long+long, "Content-Length: 3") + "abc", "x-longER=vvv"},
		{post("/m/infer", "Host: h", "x-ONE: 1", "Content-Length: 3") + "abc", "x-ONE=1"},
		{post("/m/infer", "Host: h", "x-Chunked: 1", "Transfer-Encoding: chunked") + chunked, "x-Chunked=1"},
		{post("/m/infer", "Host: h", "x-chunkED: 2", "Transfer-Encoding: chunked") + chunked, "x-chunkED=2"},
		{post("/m/infer", "Host: h", "x-LONG: "+long, "x-c: 1", "Transfer-Encoding: chunked") + chunked, "x-LONG=vvv x-c=1"},
		{post("/m/infer", "Host: h", "x-ONE: 1", "Pragma: no-cache", "Content-Length: 3") + "abc", "x-ONE=1"},
	}
	for _, piece := range []int{1 << 20, 1000, 7} {
		synctest.Test(t, func(t *testing.T) {
			f := begin(t, spelled, nil)
			for _, r := range requests {
				for text := r.text; text != ""; {
					n := min(len(text), piece)
					f.send(text[:n])
					text = text[n:]
				}
				if got, _ := f.receive(); got != r.want {
					t.Errorf("in pieces of %d, %.60q: got %q, want %q", piece, r.text, got, r.want)
				}
			}
		})
	}
}

// Of requests that come before the answer to the one before, on a connection that
// net/http has for good, it learns the right names or none, whatever is in them.
func TestSpellingOfEarlyRequests(t *testing.T) {
	fake := "X-fake: 1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
	first := post("/m/infer", "Host: h", "x-First: 1", "Transfer-Encoding: chunked") + chunked
	for name, second := range map[string]string{
		"small": post("/m/infer", "Host: h", "x-Second: 1", "Transfer-Encoding: chunked") + chunked,
		"a false head": post("/m/infer", "Host: h", "X-Second: 1", "Content-Length: 9000") + strings.Repeat("POST /m/infer HTTP/1.1\r\n"+fake,
			200)[:9000],
	} {
		for cut := 0; cut < min(len(second), 400); cut += 16 {
			synctest.Test(t, func(t *testing.T) {
				f := begin(t, spelled, nil)
				f.send(first + second[:cut])
				if got, _ := f.receive(); got != "x-First=1" {
					t.Errorf("%s cut at %d: the first: %q", name, cut, got)
				}
				f.send(second[cut:])
				if got, _ := f.receive(); got != "unknown" && !strings.EqualFold(got, "x-Second=1") {
					t.Errorf("%s cut at %d: the second: %q", name, cut, got)
				}
			})
		}
	}
}

// TestOverheardIsBounded: a body that net/http reads in large pieces is not kept in
// the place of a head.
func TestOverheardIsBounded(t *testing.T) {
	body := bytes.Repeat([]byte("a:\r\n"), 1<<20)
	c := &conn{spy: spy{on: true}}
	c.overhear(bytes.Repeat([]byte("x"), mostHead-1))
	c.overhear(append(body, "\r\n\r\n"...))
	if n := len(c.text) + cap(c.spy.head); n > 2*mostHead || c.spy.on {
		t.Errorf("%d bytes are kept, it listens: %v", n, c.spy.on)
	}
	c = &conn{spy: spy{on: true}}
	c.overhear(append(body, "\r\n\r\n"...))
	if len(c.text) > mostHead {
		t.Errorf("a text of %d bytes", len(c.text))
	}
}
