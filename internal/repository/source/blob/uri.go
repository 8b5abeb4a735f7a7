package blob

import (
	"regexp"
	"strings"

	"github.com/nesoserve/neso/backend"
)

// location is a parsed URI.
type location struct {
	scheme   string // "s3", "gs" or "as"
	endpoint string // "http://host:port" of a server of one's own, or empty
	account  string // as only
	bucket   string // or container
	prefix   string // empty, or ending in a slash
}

var hostPort = regexp.MustCompile(`^(?:(https?)://)?([0-9A-Za-z.-]+|\[[0-9A-Fa-f:]+\]):([0-9]{1,5})(?:/|$)`)

// parseURI takes a URI apart. Slashes are collapsed.
func parseURI(uri string) (location, error) {
	scheme, rest, _ := strings.Cut(uri, "://")
	p := location{scheme: scheme}
	missing := backend.Errorf(backend.Internal, "No bucket name found in path: %s", uri)
	if m := hostPort.FindStringSubmatch(rest); m != nil && scheme != "gs" {
		if m[1] == "" {
			m[1] = "http"
		}
		p.endpoint, rest = m[1]+"://"+m[2]+":"+m[3], rest[len(m[0]):]
	}
	parts := strings.FieldsFunc(rest, func(r rune) bool { return r == '/' })
	if scheme == "as" {
		if len(parts) == 0 {
			return p, missing
		}
		p.account, parts = parts[0], parts[1:]
		if p.endpoint == "" && strings.Contains(p.account, ".") {
			p.endpoint = "https://" + p.account // account.blob.core.windows.net
			p.account, _, _ = strings.Cut(p.account, ".")
		}
	}
	if len(parts) == 0 {
		return p, missing
	}
	p.bucket, parts = parts[0], parts[1:]
	if strings.ContainsAny(p.bucket, "?#%\\ ") || strings.ContainsAny(p.account, "?#%\\ ") {
		return p, backend.Errorf(backend.InvalidArg, "invalid bucket name in path: %s", uri)
	}
	if len(parts) > 0 {
		p.prefix = strings.Join(parts, "/") + "/"
	}
	return p, nil
}

// escape percent-encodes an object's name as the stores sign it: all but
// unreserved characters, and slashes when keep says so.
func escape(name string, keepSlash bool) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '.', c == '_', c == '~', c == '/' && keepSlash:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}
