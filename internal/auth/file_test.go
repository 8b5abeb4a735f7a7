package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
)

func digest(key string) string {
	d := sha256.Sum256([]byte(key))
	return hex.EncodeToString(d[:])
}

func TestParseErrors(t *testing.T) {
	hash := digest("k")
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "line 1: the file is empty"},
		{"syntax", "{\n\"keys\": [\n}", "line 3: invalid character '}' looking for beginning of value"},
		{"unknown field", "{\n\"kyes\": []}", `line 2: unknown field "kyes"`},
		{"type", "{\n\"keys\": 7}", "line 2: keys: expected a list, got number"},
		{"no keys", `{"keys": []}`, "keys: there is none, and so nobody could use the server"},
		{"health", "{\"keys\": [],\n\"health\": \"closed\"}", `line 2: health: "closed" is neither "open" nor "keys"`},
		{"trailing", `{"keys": []} x`, "line 1: there is more after the end"},
		{
			"name", "{\"keys\": [\n{\"name\": \"a b\"}]}",
			`line 2: keys[0].name: "a b" is not 1 to 64 letters, digits, '.', '_' and '-', the first a letter or digit`,
		},
		{
			"hash", "{\"keys\": [\n\n{\"name\": \"a\", \"sha256\": \"00\"}]}",
			"line 3: keys[0].sha256: expected the 64 hexadecimal digits of the key's SHA-256",
		},
		{
			"scope", `{"keys": [{"name": "a", "sha256": "` + hash + `", "scopes": ["infer", "root"]}]}`,
			`line 1: keys[0].scopes[1]: "root" is none of infer, read, manage`,
		},
		{"pattern", `{"keys": [{"name": "a", "sha256": "` + hash + `", "models": ["[" ]}]}`, `line 1: keys[0].models[0]: "[" is not a pattern`},
		{
			"entry field", "{\"keys\": [{\"name\": \"a\", \"sha256\": \"" + hash + "\"},\n{\"name\": \"b\",\n\"rate\": 1}]}",
			`line 3: unknown field "rate" (keys[1])`,
		},
		{"entry type", "{\"keys\": [{\"name\": \"a\",\n\"burst\": \"x\"}]}", `line 2: burst: expected an integer, got string (keys[0])`},
		{
			"rate", `{"keys": [{"name": "a", "sha256": "` + hash + `", "requests_per_second": -1}]}`,
			"line 1: keys[0].requests_per_second: -1 is not between 0.000001 and 1000000000, and not 0 for no bound",
		},
		{"burst alone", `{"keys": [{"name": "a", "sha256": "` + hash + `", "burst": 3}]}`, "line 1: keys[0].burst: it needs requests_per_second"},
		{
			"slow burst", `{"keys": [{"name": "a", "sha256": "` + hash + `", "burst": 1000000000, "requests_per_second": 0.00001}]}`,
			"line 1: keys[0].burst: 1000000000 requests at 1e-05 a second take too long to come back",
		},
		{
			"tokens", `{"keys": [{"name": "a", "sha256": "` + hash + `", "tokens_per_minute": -1}]}`,
			"line 1: keys[0].tokens_per_minute: -1 is not between 0 and 1000000000000",
		},
		{"negative", `{"keys": [{"name": "a", "sha256": "` + hash + `", "queued_bytes": -1}]}`, "line 1: keys[0].queued_bytes: -1 is negative"},
		{
			"two names", `{"keys": [{"name": "a", "sha256": "` + hash + `"}, {"name": "a", "sha256": "` + digest("l") + `"}]}`,
			"line 1: keys[1].name: there are two keys 'a'",
		},
		{
			"same key", `{"keys": [{"name": "a", "sha256": "` + hash + `"}, {"name": "b", "sha256": "` + hash + `"}]}`,
			"line 1: keys[1].sha256: another entry has the same key",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse([]byte(c.text))
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"health": "keys", "keys": [{"name": "a", "sha256": "` + digest("k") + `", "models": ["b*"], "requests_per_second": 0.5}]}`))
	f.Add([]byte("{\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := Parse(text)
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Error("an error without words")
			}
			return
		}
		g := NewGuard(keys, nil)
		for _, k := range keys.List {
			if k.Scopes == 0 || g.Snapshot() == nil || keys.find(&k.Digest) != k {
				t.Errorf("key %+v is not whole", k)
			}
			k.Sees("any")
			_ = k.usage.enter(&k.Quota, 1, 1, 1)
		}
	})
}
