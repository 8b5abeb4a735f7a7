package header

import (
	"slices"
	"testing"

	"golang.org/x/net/http2/hpack"
)

func TestTable(t *testing.T) {
	var table Table
	dec := hpack.NewDecoder(DefaultTableSize, nil)
	for i := range 4 {
		b := table.appendOK(table.AppendHead(nil, 200, ContentType))
		if i > 0 && len(b) != 3 {
			t.Errorf("answer %d has %d bytes of headers, want 3", i, len(b))
		}
		fields, err := dec.DecodeFull(b)
		want := []hpack.HeaderField{
			{Name: ":status", Value: "200"},
			{Name: "content-type", Value: ContentType},
			{Name: "grpc-status", Value: "0"},
		}
		if err != nil || !slices.Equal(fields, want) {
			t.Errorf("%v: %v", err, fields)
		}
	}
}
