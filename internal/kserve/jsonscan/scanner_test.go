package jsonscan

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// scan walks over a whole document and returns the text of its fault.
func scan(text string) string {
	var s Scanner
	s.Reset([]byte(text))
	if s.Peek(); s.I == len(s.B) {
		s.Fail(FaultEmpty, s.I)
	} else if s.Skip() {
		s.End()
	}
	if s.Bad == FaultNone {
		return ""
	}
	return strings.TrimPrefix(s.Err("request").Message, "failed to parse the request JSON buffer: ")
}

// The texts and offsets are those the peer gave for the same documents.
func TestFaultsStandWhereThePeerSeesThem(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{``, `The document is empty. at 0`},
		{`  `, `The document is empty. at 2`},
		{`x`, `Invalid value. at 0`},
		{`{`, `Missing a name for object member. at 1`},
		{`{"a"}`, `Missing a colon after a name of object member. at 4`},
		{`{"a":}`, `Invalid value. at 5`},
		{`{"a":1`, `Missing a comma or '}' after an object member. at 6`},
		{`{"a":1 "b"}`, `Missing a comma or '}' after an object member. at 7`},
		{`{a:1}`, `Missing a name for object member. at 1`},
		{`{"a":[1 2]}`, `Missing a comma or ']' after an array element. at 8`},
		{`{"a":[1,]}`, `Invalid value. at 8`},
		{`{"a":1,}`, `Missing a name for object member. at 7`},
		{`{"a":"\x"}`, `Invalid escape character in string. at 6`},
		{`{"a":"\u12g4"}`, `Incorrect hex digit after \u escape in string. at 6`},
		{`{"a":"\ud800"}`, `The surrogate pair in string is invalid. at 6`},
		{`{"a":"\ud800\u0041"}`, `The surrogate pair in string is invalid. at 6`},
		{`{"a":"abc`, `Missing a closing quotation mark in string. at 9`},
		{"{\"a\":\"a\x01b\"}", `Invalid escape character in string. at 7`},
		{`{"a":1.}`, `Miss fraction part in number. at 7`},
		{`{"a":1e}`, `Miss exponent in number. at 7`},
		{`{"a":01}`, `Missing a comma or '}' after an object member. at 6`},
		{`{"a":-}`, `Invalid value. at 6`},
		{`{"a":1e400}`, `Number too big to be stored in double. at 5`},
		{`{"a":tru}`, `Invalid value. at 8`},
		{`{"a":nul}`, `Invalid value. at 8`},
		{`{"a":Nan}`, `Invalid value. at 7`},
		{`{"a":Inf}`, ``},
		{`{"a":Infi}`, `Invalid value. at 9`},
		{`{"a":-Inf}`, ``},
		{`{"a":+1}`, `Invalid value. at 5`},
		{`{"a":.5}`, `Invalid value. at 5`},
		{`{} x`, `The document root must not be followed by other values. at 3`},
		{`[[],{},[{"a":[]}],"é\n",-0.5e-3,true,false,null,Infinity,-Infinity,NaN]`, ``},
		{strings.Repeat("[", 100) + strings.Repeat("]", 100), ``},
		{strings.Repeat("[", 101) + strings.Repeat("]", 101), `JSON nesting depth exceeds maximum allowed limit (100)`},
		{strings.Repeat(`{"a":`, 200_000), `JSON nesting depth exceeds maximum allowed limit (100)`},
	} {
		if got := scan(c.text); got != c.want {
			t.Errorf("%.40q: got %q, want %q", c.text, got, c.want)
		}
	}
}

func TestStrings(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`""`, ""},
		{`"abc"`, "abc"},
		{`"\u00e9\ud83d\ude00"`, "é😀"},
		{`"\"\\\/\b\f\n\r\t\u0000"`, "\"\\/\b\f\n\r\t\x00"},
		{"\"\xff\xfe\"", "\xff\xfe"},
	} {
		var s Scanner
		s.Reset([]byte(c.text))
		got, ok := s.Str()
		if !ok || string(got) != c.want || s.I != len(c.text) {
			t.Errorf("%s: got %q, %v, stands at %d", c.text, got, ok, s.I)
		}
	}
}

// FuzzScanner holds the scanner against encoding/json: both take the same
// documents, apart from what Triton's parser takes more.
func FuzzScanner(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,2.5e-3,"x\u00e9",null]}`, `[`, `{"a":1,}`, `"\ud83d\ude00"`, `-0`, `1e5`, `[1,[2,[3]]]`, `"`, ` [ ] `,
		`{"":{}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fault := scan(string(b))
		valid := json.Valid(b)
		text := string(b)
		switch {
		case valid && fault != "":
			if !strings.Contains(fault, "nesting") && !strings.Contains(fault, "too big") && !strings.Contains(fault, "surrogate") {
				t.Errorf("%q is valid, got %q", b, fault)
			}
		case !valid && fault == "":
			if !strings.Contains(text, "NaN") && !strings.Contains(text, "Inf") && utf8.Valid(b) {
				t.Errorf("%q is not valid, but passed", b)
			}
		}
	})
}
