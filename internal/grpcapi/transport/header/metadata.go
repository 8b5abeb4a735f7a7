package header

import (
	"encoding/base64"
	"strings"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/metadata"
)

// IsGRPC reports whether a content type is gRPC's.
func IsGRPC(contentType string) bool {
	rest, ok := strings.CutPrefix(strings.ToLower(contentType), "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

const binarySuffix = "-bin"

// decodeBinary reads the value of a header that ends in -bin.
func decodeBinary(v string) (string, bool) {
	coding := base64.RawStdEncoding
	if len(v)%4 == 0 {
		coding = base64.StdEncoding
	}
	b, err := coding.DecodeString(v)
	return string(b), err == nil
}

// Metadata makes a map of what the client sent.
func Metadata(fields []hpack.HeaderField) metadata.MD {
	md := make(metadata.MD, len(fields))
	for _, f := range fields {
		v := f.Value
		if strings.HasSuffix(f.Name, binarySuffix) {
			var ok bool
			if v, ok = decodeBinary(v); !ok {
				continue
			}
		}
		md[f.Name] = append(md[f.Name], v)
	}
	return md
}

// AppendMetadata appends what a handler has set.
func AppendMetadata(b []byte, md metadata.MD) []byte {
	for name, values := range md {
		if strings.HasPrefix(name, ":") || strings.HasPrefix(name, "grpc-") && name != "grpc-retry-pushback-ms" {
			continue // the protocol's own
		}
		for _, v := range values {
			if strings.HasSuffix(name, binarySuffix) {
				v = base64.RawStdEncoding.EncodeToString([]byte(v))
			}
			b = AppendField(b, name, v)
		}
	}
	return b
}

// appendMessage appends the text of a status: what is not printable ASCII is
// percent-encoded.
func appendMessage(text string) string {
	plain := func(c byte) bool { return c >= ' ' && c <= '~' && c != '%' }
	i := 0
	for i < len(text) && plain(text[i]) {
		i++
	}
	if i == len(text) {
		return text
	}
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
	return b.String()
}
