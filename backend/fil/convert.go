package fil

import (
	"bytes"
	"context"
	_ "embed" // for the converter
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nesoserve/neso/backend"
)

//go:embed convert.py
var converter string

// converted is a model file that the converter has written, alone in a
// directory, which the caller removes.
type converted struct {
	directory, path string
	format          format
}

// maxConversion is how long the converter may take.
const maxConversion = 10 * time.Minute

// convert reads a Python object in a process of its own and writes it as a file
// that the library reads. A pickle may run any code, with the rights of the
// server: it is refused unless the server was started with --allow-pickle.
func (d *driver) convert(ctx context.Context, cfg *backend.Config, path string) (*converted, error) {
	fail := func(code backend.Code, format string, args ...any) (*converted, error) {
		return nil, backend.Errorf(code, "unable to load the model '%s' of '%s': %s", shown(cfg, path), cfg.Name, fmt.Sprintf(format, args...))
	}
	safe, err := isArchive(path)
	if err != nil {
		return fail(backend.Unavailable, "%v", err)
	}
	if !safe && !d.settings.allowPickle {
		return fail(backend.Unsupported,
			"a pickle may run any code when it is read: it is refused unless the server is started with --allow-pickle; do that only for files that you trust, or convert it once, where it was trained, with treelite.sklearn.import_model(model).serialize('checkpoint.tl')")
	}
	if d.options.Interpreter == nil {
		return fail(backend.Unavailable, "a Python interpreter is needed, which this program does not name")
	}
	interpreter, err := d.options.Interpreter()
	if err != nil {
		return fail(backend.Unavailable, "%v", err)
	}
	dir, err := os.MkdirTemp("", "neso-forest-")
	if err != nil {
		return fail(backend.Unavailable, "%v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, maxConversion)
	defer cancel()
	cmd := exec.CommandContext(ctx, interpreter, "-c", converter, path, dir)
	cmd.Dir = dir
	errs := &tail{}
	cmd.Stderr, cmd.WaitDelay = errs, time.Second
	out := &tail{}
	cmd.Stdout = out
	if err := cmd.Run(); err != nil {
		os.RemoveAll(dir)
		if ctx.Err() != nil {
			err = errors.New("it took too long, or the load was given up")
		}
		if text := strings.TrimSpace(errs.String()); text != "" {
			err = errors.New(text)
		}
		return fail(backend.InvalidArg, "%v", err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	kind, name, ok := strings.Cut(lines[len(lines)-1], " ")
	if _, err := parseFormat(kind); !ok || err != nil || !filepath.IsLocal(name) {
		os.RemoveAll(dir)
		return fail(backend.Internal, "the converter answers %q", lines[len(lines)-1])
	}
	return &converted{directory: dir, path: filepath.Join(dir, name), format: format(kind)}, nil
}

// isArchive reports whether a file is a skops archive: reading one runs no code
// of the file's.
func isArchive(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var head [4]byte
	_, err = f.Read(head[:])
	return string(head[:]) == "PK\x03\x04", err
}

// tail keeps the end of a text.
type tail struct{ b bytes.Buffer }

const tailSize = 4096

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if len(p) > tailSize {
		p = p[len(p)-tailSize:]
	}
	if over := t.b.Len() + len(p) - tailSize; over > 0 {
		t.b.Next(over)
	}
	t.b.Write(p)
	return n, nil
}

func (t *tail) String() string { return t.b.String() }
