package header

import (
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"
)

// call is what every call says.
const call = ":method POST|:scheme http|:path /a.B/C|content-type application/grpc|te trailers"

func TestMalformedRequests(t *testing.T) {
	for _, c := range []struct{ name, headers, want string }{
		{"a call", call, ""},
		{"with metadata", call + "|x-a 1|content-length 5|content-length 5", ""},
		{"without a path", ":method POST|:scheme http", "a pseudo-header is missing"},
		{"an empty path", ":method POST|:scheme http|:path ", "an empty pseudo-header"},
		{"two paths", call[:strings.Index(call, "|content")] + "|:path /", "a pseudo-header comes twice"},
		{"a pseudo-header too late", "x-a 1|" + call, "a pseudo-header behind other headers"},
		{"an unknown one", ":status 200|" + call, "an unknown pseudo-header"},
		{"of HTTP/1", call + "|connection close", "a header of another version of HTTP"},
		{"other trailers", call + "|te gzip", "te is not trailers"},
		{"two lengths", call + "|content-length 5|content-length 6", "a wrong content-length"},
		{"a length that is none", call + "|content-length -1", "a wrong content-length"},
		{"a large letter", call + "|X-A 1", "a header's name that cannot be"},
		{"a name of nothing", call + "| 1", "a header's name that cannot be"},
		{"a line break", call + "|x-a 1\n2", "a header's value that cannot be"},
	} {
		var r Request
		r.Begin()
		for f := range strings.SplitSeq(c.headers, "|") {
			name, value, _ := strings.Cut(f, " ")
			r.Take(hpack.HeaderField{Name: name, Value: value}, 1<<10)
		}
		if r.Complete(); r.Malformed != c.want {
			t.Errorf("%s: %q, want %q", c.name, r.Malformed, c.want)
		}
	}
}

func TestTrailersAndSizes(t *testing.T) {
	var r Request
	r.Begin()
	r.Take(hpack.HeaderField{Name: "x-a", Value: "1"}, 1<<10)
	if !r.Trails() {
		t.Error("metadata alone may stand behind the messages")
	}
	r.Take(hpack.HeaderField{Name: "x-b", Value: strings.Repeat("v", 1<<10)}, 1<<10)
	if len(r.Fields) != 1 || r.Size <= 1<<10 {
		t.Errorf("%d fields of %d bytes are kept", len(r.Fields), r.Size)
	}
	r.Take(hpack.HeaderField{Name: ":path", Value: "/"}, 1<<10)
	if r.Trails() {
		t.Error("a path stands at the beginning")
	}
	if r.Begin(); r.Size != 0 || r.Length != -1 || len(r.Fields) != 0 || !r.Trails() {
		t.Errorf("what is left of another block: %+v", r)
	}
}
