package cli

import (
	"strings"
	"testing"

	"github.com/nesoserve/neso"
)

func TestRestricted(t *testing.T) {
	set := setRestricted("http-restricted-api", "api", "p-",
		func(o *serveOptions) *map[string]neso.Restriction { return &o.server.HTTP.Restricted })
	o := &serveOptions{}
	for _, c := range []struct{ text, want string }{
		{"health,trace:key=a=b", ""},
		{"logging:key=v", ""},
		{"trace:other=v", "restricted api 'trace' can not be specified in multiple config groups"},
		{"nothing:key=v", "unknown restricted api 'nothing' "},
		{"health", "--http-restricted-api option format is '<config name>:<setting>=<value>'. Got health"},
		{"health:key=", "--http-restricted-api option format is '<config name>:<setting>=<value>'. Got health:key="},
	} {
		err := set(o, c.text)
		if got := text(err); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
	if got := o.server.HTTP.Restricted["trace"]; got != (neso.Restriction{Key: "p-key", Value: "a=b"}) {
		t.Errorf("trace: %+v", got)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// FuzzRestricted: whatever the text, an option is refused in words or closes the
// categories that it names, all to the same key, and prints back as it was.
func FuzzRestricted(f *testing.F) {
	for _, s := range []string{
		"health,trace:key=a=b", "logging:key=v", ":=", "health:k=", "health,,trace:k=v", "health,health:k=v",
		"inference:k:=v",
	} {
		f.Add(s)
	}
	set := setRestricted("grpc-restricted-protocol", "protocol", grpcPrefix,
		func(o *serveOptions) *map[string]neso.Restriction { return &o.server.GRPC.Restricted })
	f.Fuzz(func(t *testing.T, s string) {
		o := &serveOptions{}
		if err := set(o, s); err != nil {
			if err.Error() == "" {
				t.Error("an error without words")
			}
			return
		}
		list, rest, _ := strings.Cut(s, ":")
		categories := strings.Split(list, ",")
		if len(categories) != len(o.server.GRPC.Restricted) {
			t.Errorf("%q closes %v", s, o.server.GRPC.Restricted)
		}
		for _, c := range categories {
			r, ok := o.server.GRPC.Restricted[c]
			if key, isOurs := strings.CutPrefix(r.Key, grpcPrefix); !ok || !isOurs || key == "" || r.Value == "" || key+"="+r.Value != rest {
				t.Errorf("%q: category %q has %+v", s, c, r)
			}
		}
	})
}
