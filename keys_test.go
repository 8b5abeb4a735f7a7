package neso

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKeysWithoutTLS: the log says so of listeners that other machines reach, and of
// no others.
func TestKeysWithoutTLS(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.json")
	text := `{"keys": [{"name": "k", "sha256": "` + strings.Repeat("0", 64) + `"}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		address string
		tls     *TLS
		warned  bool
	}{
		{"0.0.0.0:8000", nil, true},
		{":8000", nil, true},
		{"10.0.0.1:8000", nil, true},
		{"0.0.0.0:8000", &TLS{}, false},
		{"127.0.0.1:8000", nil, false},
		{"[::1]:8000", nil, false},
		{"", nil, false},
	} {
		var out bytes.Buffer
		s := &Server{AuthFile: file}
		s.HTTP.Address, s.HTTP.TLS = c.address, c.tls
		if _, err := s.openGuard(slog.New(slog.NewTextHandler(&out, nil))); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "keys travel unencrypted"); got != c.warned {
			t.Errorf("%q: warned %v, want %v: %s", c.address, got, c.warned, out.String())
		}
	}
}
