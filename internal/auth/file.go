package auth

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// maxKeys bounds a file, and with it the label values of the metrics.
const maxKeys = 10000

// Entry is a key as the file writes it.
type Entry struct {
	Name               string   `json:"name"`
	SHA256             string   `json:"sha256"`
	Scopes             []string `json:"scopes,omitempty"`
	Models             []string `json:"models,omitempty"`
	RequestsPerSecond  float64  `json:"requests_per_second,omitempty"`
	Burst              int64    `json:"burst,omitempty"`
	ConcurrentRequests int64    `json:"concurrent_requests,omitempty"`
	QueuedBytes        int64    `json:"queued_bytes,omitempty"`
	TokensPerMinute    int64    `json:"tokens_per_minute,omitempty"`
}

var keyName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Key checks the entry. Errors begin with the field.
func (e *Entry) Key() (*Key, error) {
	k := &Key{Name: e.Name, Quota: Quota{
		RequestsPerSecond: e.RequestsPerSecond, Burst: e.Burst, ConcurrentRequests: e.ConcurrentRequests, QueuedBytes: e.QueuedBytes,
		TokensPerMinute: e.TokensPerMinute,
	}}
	if !keyName.MatchString(e.Name) {
		return nil, fmt.Errorf("name: %q is not 1 to 64 letters, digits, '.', '_' and '-', the first a letter or digit", e.Name)
	}
	digest, err := hex.DecodeString(e.SHA256)
	if err != nil || len(digest) != len(k.Digest) {
		return nil, errors.New("sha256: expected the 64 hexadecimal digits of the key's SHA-256")
	}
	copy(k.Digest[:], digest)
	if len(e.Scopes) == 0 {
		k.Scopes = Infer
	}
	for i, s := range e.Scopes {
		n := slices.IndexFunc(scopeNames, func(n struct {
			scope Scope
			name  string
		},
		) bool {
			return n.name == s
		})
		if n < 0 {
			return nil, fmt.Errorf("scopes[%d]: %q is none of infer, read, manage", i, s)
		}
		k.Scopes |= scopeNames[n].scope
	}
	for i, p := range e.Models {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			return nil, fmt.Errorf("models[%d]: %q is not a pattern", i, p)
		}
	}
	if e.Models != nil && !slices.Contains(e.Models, "*") {
		k.Models = e.Models
	}
	switch {
	case e.RequestsPerSecond < 0 || e.RequestsPerSecond > 1e9 || e.RequestsPerSecond != 0 && e.RequestsPerSecond < 1e-6:
		return nil, fmt.Errorf("requests_per_second: %v is not between 0.000001 and 1000000000, and not 0 for no bound", e.RequestsPerSecond)
	case e.Burst < 0 || e.Burst > 1e9:
		return nil, fmt.Errorf("burst: %d is not between 0 and 1000000000", e.Burst)
	case e.Burst > 0 && e.RequestsPerSecond == 0:
		return nil, errors.New("burst: it needs requests_per_second")
	case e.Burst > 0 && float64(e.Burst)*1e9/e.RequestsPerSecond > math.MaxInt64/4:
		return nil, fmt.Errorf("burst: %d requests at %v a second take too long to come back", e.Burst, e.RequestsPerSecond)
	case e.ConcurrentRequests < 0:
		return nil, fmt.Errorf("concurrent_requests: %d is negative", e.ConcurrentRequests)
	case e.QueuedBytes < 0:
		return nil, fmt.Errorf("queued_bytes: %d is negative", e.QueuedBytes)
	case e.TokensPerMinute < 0 || e.TokensPerMinute > 1e12:
		return nil, fmt.Errorf("tokens_per_minute: %d is not between 0 and 1000000000000", e.TokensPerMinute)
	}
	return k, nil
}

// Parse reads the text of an auth file. Errors name the line and the field.
func Parse(text []byte) (*Keys, error) {
	var file struct {
		Health string            `json:"health"`
		Keys   []json.RawMessage `json:"keys"`
	}
	if err := strict(text, &file); err != nil {
		return nil, at(text, 0, err)
	}
	keys := &Keys{}
	switch file.Health {
	case "", "open":
	case "keys":
		keys.GuardedHealth = true
	default:
		return nil, fmt.Errorf("line %d: health: %q is neither \"open\" nor \"keys\"", lineOf(text, bytes.Index(text, []byte(`"health"`))),
			file.Health)
	}
	if len(file.Keys) == 0 {
		return nil, errors.New("keys: there is none, and so nobody could use the server")
	}
	if len(file.Keys) > maxKeys {
		return nil, fmt.Errorf("keys: %d are more than %d", len(file.Keys), maxKeys)
	}
	names, digests := map[string]bool{}, map[[8]byte]bool{}
	from := bytes.Index(text, []byte(`"keys"`))
	for i, raw := range file.Keys {
		from += max(0, bytes.Index(text[max(0, from):], raw)) // it stands there as it is
		start := max(0, from)
		from = start + len(raw)
		var e Entry
		if err := strict(raw, &e); err != nil {
			return nil, fmt.Errorf("%w (keys[%d])", at(text, start, err), i)
		}
		k, err := e.Key()
		switch {
		case err != nil:
		case names[k.Name]:
			err = fmt.Errorf("name: there are two keys '%s'", k.Name)
		case digests[[8]byte(k.Digest[:8])]:
			err = errors.New("sha256: another entry has the same key")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: keys[%d].%w", lineOf(text, start), i, err)
		}
		names[k.Name], digests[[8]byte(k.Digest[:8])] = true, true
		keys.List = append(keys.List, k)
	}
	slices.SortFunc(keys.List, func(a, b *Key) int { return strings.Compare(a.Name, b.Name) })
	return keys, nil
}

// strict decodes one JSON value that has no unknown fields and nothing behind it.
func strict(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("the file is empty")
		}
		return &placed{err, int(d.InputOffset())}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return &placed{errors.New("there is more after the end"), int(d.InputOffset())}
	}
	return nil
}

// placed is an error of the decoder with the place where that stands, which is
// the best there is when the error has none of its own.
type placed struct {
	error
	offset int
}

func (p *placed) Unwrap() error { return p.error }

// at puts the line before an error; from is where the decoded text begins.
func at(text []byte, from int, err error) error {
	offset := 0
	if p, ok := errors.AsType[*placed](err); ok {
		offset, err = p.offset, p.error
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = int(e.Offset)
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("line %d: %s: expected %s, got %s", lineOf(text, from+int(e.Offset)), e.Field, typeNames[e.Type.Kind()], e.Value)
	}
	return fmt.Errorf("line %d: %s", lineOf(text, from+offset), strings.TrimPrefix(err.Error(), "json: "))
}

// typeNames are JSON's words for the types of the fields.
var typeNames = map[reflect.Kind]string{
	reflect.Slice: "a list", reflect.Struct: "an object", reflect.String: "a string", reflect.Int64: "an integer", reflect.Float64: "a number",
}

func lineOf(text []byte, offset int) int {
	return 1 + bytes.Count(text[:min(max(0, offset), len(text))], []byte{'\n'})
}
