package auth

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/nesoserve/neso/internal/filestamp"
)

// maxKeyFile bounds the file of keys, in bytes.
const maxKeyFile = 16 << 20

// keyFile is the file of keys as last read. The guard calls refresh, one call
// at a time.
type keyFile struct {
	path   string
	log    *slog.Logger
	guard  *Guard
	stamps filestamp.Stamps
	failed string // what was said about the present state of the file
}

// Open reads the file of keys at path, and reads it again when it changes.
func Open(path string, log *slog.Logger) (*Guard, error) {
	f := &keyFile{path: path, log: log}
	var err error
	if f.stamps, err = filestamp.Of(f.path); err != nil {
		return nil, fmt.Errorf("auth file: %w", err)
	}
	keys, err := f.read()
	if err != nil {
		return nil, err
	}
	f.guard = NewGuard(keys, f.refresh)
	log.Info("clients need a key", "file", f.path, "keys", len(keys.List))
	return f.guard, nil
}

func (f *keyFile) read() (*Keys, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil, fmt.Errorf("auth file: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxKeyFile+1))
	if err != nil {
		return nil, fmt.Errorf("auth file: %w", err)
	}
	if len(text) > maxKeyFile {
		return nil, fmt.Errorf("auth file %s: it has more than %d bytes", f.path, maxKeyFile)
	}
	keys, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("auth file %s: %w", f.path, err)
	}
	return keys, nil
}

// refresh reads the file again if it has changed. What cannot be used is said
// once, and the old keys stay.
func (f *keyFile) refresh() {
	stamps, err := filestamp.Of(f.path)
	if err == nil {
		if stamps.Equal(f.stamps) && f.failed == "" {
			return
		}
		var keys *Keys
		if keys, err = f.read(); err == nil {
			f.stamps, f.failed = stamps, ""
			f.guard.Replace(keys)
			f.log.Info("new keys", "file", f.path, "keys", len(keys.List))
			return
		}
	}
	if text := err.Error(); text != f.failed {
		f.failed = text
		f.log.Warn("the changed auth file cannot be used, the old keys stay", "error", text)
	}
}
