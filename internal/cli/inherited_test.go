//go:build unix

package cli

import (
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// optionsIn returns a descriptor that holds the text.
func optionsIn(t *testing.T, text string) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = io.WriteString(w, text) // the reader may stop early
		_ = w.Close()
	}()
	fd, err := syscall.Dup(int(r.Fd())) // what it is given, the parser closes
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	return strconv.Itoa(fd)
}

func TestInheritedOptions(t *testing.T) {
	table, o := serveTable(), defaults()
	given, err := parse(table, []string{"--id=a", "--options-fd=" +
		optionsIn(t, "--http-restricted-api=health:key=secret\n\n--http-port=9\n")}, o)
	if err == nil {
		given, err = o.inherited(table, given)
	}
	if err != nil {
		t.Fatal(err)
	}
	if o.server.HTTP.Restricted["health"].Value != "secret" || o.httpPort != 9 {
		t.Errorf("got %+v, port %d", o.server.HTTP.Restricted, o.httpPort)
	}
	if got := strings.Join(given, " "); got != "id options-fd http-restricted-api http-port" {
		t.Errorf("given: %s", got)
	}
}

func TestInheritedRefusals(t *testing.T) {
	for _, c := range []struct{ fd, want string }{
		{"2", "--options-fd names an inherited descriptor from 3 on"},
		{optionsIn(t, "--nothing=1\n"), "unrecognized option '--nothing'"},
		{optionsIn(t, "--options-fd=9\n"), "--options-fd cannot be among the options of a descriptor"},
		{optionsIn(t, strings.Repeat("x", maxInherited+1)), "--options-fd: more than 1048576 bytes"},
	} {
		table, o := serveTable(), defaults()
		given, err := parse(table, []string{"--options-fd=" + c.fd}, o)
		if err == nil {
			_, err = o.inherited(table, given)
		}
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", c.fd, err, c.want)
		}
	}
}
