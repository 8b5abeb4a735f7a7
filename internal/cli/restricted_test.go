package cli

import (
	"testing"

	"github.com/nesoserve/neso"
)

func TestRestricted(t *testing.T) {
	set := setRestricted("http-restricted-api", "api", "p-", func(o *serveOptions) *map[string]neso.Restriction { return &o.server.HTTP.Restricted })
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
