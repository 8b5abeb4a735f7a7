package header

import (
	"encoding/base64"
	"encoding/binary"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Table is what the client's header table holds of ours: the content type, then
// the status 0. Each answer then takes three bytes of headers. The zero value is
// empty.
type Table struct {
	entries int
	off     bool   // the client's table is too small
	limit   uint32 // what the client lets the table be, below DefaultTableSize
	update  bool   // the client must be told that the table is not larger
}

// tableNeed is the size of the two entries as HTTP/2 counts them.
const tableNeed = len("content-type") + len(ContentType) + 32 + len("grpc-status") + 1 + 32

// ContentType is what all calls and answers of gRPC have.
const ContentType = "application/grpc"

// DefaultTableSize is how large a table is that nobody has resized, in bytes.
const DefaultTableSize = 4096

// Resize obeys SETTINGS_HEADER_TABLE_SIZE. A smaller table has to be
// acknowledged by the next block of headers (RFC 7541, section 4.2), also where
// all entries stay; of a larger one no use is made.
func (t *Table) Resize(size uint32) {
	if size >= DefaultTableSize || t.limit > 0 && size >= t.limit || t.off {
		return
	}
	t.limit, t.update = size, true
	if size < uint32(tableNeed) {
		t.off, t.limit, t.entries = true, 0, 0
	}
}

const (
	indexStatus200   = 8
	indexContentType = 31
	staticEntries    = 61
)

// AppendHead appends the start of every answer: status and content type.
func (t *Table) AppendHead(b []byte, httpStatus int, contentType string) []byte {
	b = t.appendUpdate(b)
	if httpStatus == 200 {
		b = append(b, 0x80|indexStatus200)
	} else {
		b = append(b, 0x08) // :status by name
		b = appendText(b, strconv.Itoa(httpStatus))
	}
	switch {
	case t.off || contentType != ContentType:
		return appendText(append(b, 0x0f, indexContentType-0x0f), contentType)
	case t.entries == 0:
		t.entries = 1
		return appendText(append(b, 0x40|indexContentType), ContentType)
	}
	return append(b, 0x80|byte(staticEntries+t.entries))
}

// appendUpdate begins a block of headers where the client has to be told how
// large the table is.
func (t *Table) appendUpdate(b []byte) []byte {
	switch {
	case !t.update:
		return b
	case t.limit < 0x1f:
		b = append(b, 0x20|byte(t.limit))
	default:
		b = binary.AppendUvarint(append(b, 0x3f), uint64(t.limit-0x1f))
	}
	t.update = false
	return b
}

// appendOK appends the status of success.
func (t *Table) appendOK(b []byte) []byte {
	switch {
	case t.off || t.entries == 0:
		return AppendField(b, "grpc-status", "0")
	case t.entries == 1:
		t.entries = 2
		return appendText(appendText(append(b, 0x40), "grpc-status"), "0")
	}
	return append(b, 0x80|staticEntries+1)
}

// AppendField appends a header that is not kept in the table.
func AppendField(b []byte, name, value string) []byte {
	return appendText(appendText(append(b, 0), name), value)
}

// appendText appends a string with its length, not compressed.
func appendText(b []byte, s string) []byte {
	n := len(s)
	if n < 0x7f {
		b = append(b, byte(n))
	} else {
		b = binary.AppendUvarint(append(b, 0x7f), uint64(n-0x7f))
	}
	return append(b, s...)
}

// AppendStatus appends the end of an answer.
func (t *Table) AppendStatus(b []byte, s *status.Status, trailer metadata.MD) []byte {
	b = t.appendUpdate(b)
	if s.Code() == codes.OK {
		b = t.appendOK(b)
	} else {
		b = AppendField(b, "grpc-status", strconv.Itoa(int(s.Code())))
		b = AppendField(b, "grpc-message", appendMessage(s.Message()))
		if p := s.Proto(); len(p.GetDetails()) > 0 {
			if details, err := proto.Marshal(p); err == nil {
				b = AppendField(b, "grpc-status-details-bin", base64.RawStdEncoding.EncodeToString(details))
			}
		}
	}
	return AppendMetadata(b, trailer)
}
