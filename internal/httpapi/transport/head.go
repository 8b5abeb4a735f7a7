package transport

import (
	"bytes"
	"strings"
)

// verdict is what the bytes at the beginning of a message are.
type verdict uint8

const (
	isPart  verdict = iota // of a head; more has to come
	isHot                  // a request to be served here
	isPlain                // a message whose end is known, for net/http
	isOdd                  // anything else
)

// noLength is the length of a body that has no Content-Length.
const noLength = -1

// maxDigits is how long a Content-Length may be.
const maxDigits = 18

// head is the head of a message, as far as it has come.
//
// It is taken only in the form that no reader can take for another one: lines
// end with CRLF, fields are a token, a colon and a value without control
// characters, what frames the body is given once, as a number. Everything that
// changes what follows on the connection makes it odd, what this package does
// not serve makes it plain.
type head struct {
	size   int   // bytes of the complete lines, in the end of the head
	length int64 // of the body
	cold   bool  // it will not be hot
	host   bool

	pathStart, pathEnd int
}

// parse goes on with the head at the beginning of b. It may be called again with
// more bytes, as long as it has said that there are too few.
func (h *head) parse(b []byte, hot func(path string) bool) verdict {
	for {
		line, _, ok := bytes.Cut(b[h.size:], []byte("\n"))
		if !ok {
			return isPart
		}
		first := h.size == 0
		start := h.size
		h.size += len(line) + 1
		line, ok = bytes.CutSuffix(line, []byte("\r"))
		switch {
		case !ok:
			return isOdd
		case first:
			if !h.requestLine(line) {
				return isOdd
			}
		case len(line) == 0:
			if h.cold || !h.host || h.length == noLength || !hot(string(b[h.pathStart:h.pathEnd])) {
				return isPlain
			}
			return isHot
		default:
			if !h.field(b[start : start+len(line)]) {
				return isOdd
			}
		}
	}
}

// requestLine takes "METHOD /path HTTP/1.1".
func (h *head) requestLine(line []byte) bool {
	method, rest, _ := bytes.Cut(line, []byte(" "))
	target, version, _ := bytes.Cut(rest, []byte(" "))
	if string(version) != "HTTP/1.1" || len(method) == 0 || len(target) == 0 || target[0] != '/' {
		return false
	}
	for _, c := range method {
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	h.cold = string(method) != "POST"
	for _, c := range target {
		switch {
		case isPath[c]:
		case c <= ' ' || c >= 0x7f:
			return false
		default:
			h.cold = true // escapes, a query: what it means is for package url to say
		}
	}
	h.pathStart = len(method) + 1
	h.pathEnd = h.pathStart + len(target)
	return true
}

// field takes "Name: value".
func (h *head) field(line []byte) bool {
	name, value, ok := splitField(line)
	if !ok {
		return false
	}
	switch {
	case is(name, "content-length"):
		return h.contentLength(value)
	case is(name, "host"):
		if h.host {
			return false
		}
		h.host = true
		for _, c := range value {
			h.cold = h.cold || !isHost[c]
		}
		h.cold = h.cold || len(value) == 0
	case is(name, "connection"):
		h.cold = h.cold || !is(value, "keep-alive")
	case is(name, "pragma"):
		h.cold = true // net/http makes another field of it
	case is(name, "transfer-encoding"), is(name, "expect"), is(name, "upgrade"), is(name, "trailer"), is(name, "http2-settings"):
		return false
	}
	return true
}

func (h *head) contentLength(value []byte) bool {
	if h.length != noLength || len(value) == 0 || len(value) > maxDigits {
		return false
	}
	h.length = 0
	for _, c := range value {
		if c < '0' || c > '9' {
			return false
		}
		h.length = h.length*10 + int64(c-'0')
	}
	return true
}

// whole returns the head at the beginning of b if all of it is there, in lines
// that no reader can take for others, whatever they ask for.
func whole(b []byte) string {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return ""
	}
	lines := bytes.Split(b[:end], []byte("\r\n"))
	for i, line := range lines {
		if bytes.IndexByte(line, '\n') >= 0 || bytes.IndexByte(line, '\r') >= 0 {
			return ""
		}
		if i > 0 {
			if _, _, ok := splitField(line); !ok {
				return ""
			}
		}
	}
	return string(b[:end+len("\r\n\r\n")])
}

// splitField takes a field apart; ok says that both parts have only characters
// that they may have.
func splitField(line []byte) (name, value []byte, ok bool) {
	name, value, ok = bytes.Cut(line, []byte(":"))
	if !ok || len(name) == 0 {
		return nil, nil, false
	}
	for _, c := range name {
		if !isToken[c] {
			return nil, nil, false
		}
	}
	for _, c := range value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return nil, nil, false
		}
	}
	return name, bytes.Trim(value, " \t"), true
}

// is compares without regard to case; lower is in lower case.
func is(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

const alphanumeric = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

var (
	isPath  = set(alphanumeric + "-._~/")
	isHost  = set(alphanumeric + "-.:[]_")
	isToken = set(alphanumeric + "!#$%&'*+-.^_`|~")
)

func set(members string) (t [256]bool) {
	for i := range t {
		t[i] = strings.IndexByte(members, byte(i)) >= 0
	}
	return t
}
