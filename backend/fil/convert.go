package fil

import (
	"bytes"
	"context"
	_ "embed" // for the converter
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/limits"
	"github.com/nesoserve/neso/backend/internal/worker/process"
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
// that the library reads. A pickle may run any code, with the rights of a
// worker: it is refused unless the server was started with --allow-pickle.
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
			"a pickle may run any code when it is read: it is refused unless the server is started with %s; do that only for files that you "+
				"trust, or convert it once, where it was trained, with treelite.sklearn.import_model(model).serialize('checkpoint.tl')",
			d.server.Option("allow-pickle"))
	}
	if d.options.Interpreter == nil {
		return fail(backend.Unavailable, "a Python interpreter is needed, which this program does not name")
	}
	interpreter, err := d.options.Interpreter(d.server.Option("python"))
	if err != nil {
		return fail(backend.Unavailable, "%v", err)
	}
	dir, err := os.MkdirTemp("", "neso-forest-")
	if err != nil {
		return fail(backend.Unavailable, "%v", err)
	}
	out := &tail{}
	if err = d.lend(dir); err == nil {
		err = d.runConverter(ctx, cfg, interpreter, path, dir, out)
	}
	if err != nil {
		os.RemoveAll(dir)
		return fail(backend.InvalidArg, "%v", err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	kind, name, ok := strings.Cut(lines[len(lines)-1], " ")
	if _, err := parseFormat(kind); !ok || err != nil || !filepath.IsLocal(name) {
		os.RemoveAll(dir)
		return fail(backend.Internal, "the converter answers %q", lines[len(lines)-1])
	}
	made, err := d.take(dir, name)
	if err != nil {
		os.RemoveAll(dir)
		return fail(backend.Internal, "what the converter has written: %v", err)
	}
	made.format = format(kind)
	return made, nil
}

// runConverter runs the converter as a worker of the model would run.
func (d *driver) runConverter(ctx context.Context, cfg *backend.Config, interpreter, path, dir string, out *tail) error {
	bounds, err := limits.Of(cfg.Parameters)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, maxConversion)
	defer cancel()
	errs := &tail{}
	err = process.RunOnce(ctx, process.Command{
		Path: interpreter, Args: []string{"-", path, dir}, Dir: dir, User: d.user, Limits: bounds,
		Confine: process.Confiner(d.options.WorkerBinary),
		Env:     process.Environment(d.options.Environment, d.options.WorkerEnvironment, d.user),
	}, converter, out, errs)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = errors.New("it took too long, or the load was given up")
	}
	if text := strings.TrimSpace(errs.String()); text != "" {
		err = errors.New(text)
	}
	return err
}

// lend gives a directory to the workers' user.
func (d *driver) lend(dir string) error {
	if d.user == nil {
		return nil
	}
	return os.Chown(dir, int(d.user.UID), int(d.user.GID))
}

// take returns what the converter has written in dir. That of another user
// may change still, and may be no file at all: it is copied to a directory of
// the server's own, and dir is removed.
func (d *driver) take(dir, name string) (*converted, error) {
	if d.user == nil {
		return &converted{directory: dir, path: filepath.Join(dir, name)}, nil
	}
	root, err := os.OpenRoot(dir) // from which no link leads out
	if err != nil {
		return nil, err
	}
	defer root.Close()
	from, err := root.OpenFile(name, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", name)
	}
	own, err := os.MkdirTemp("", "neso-forest-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(own, filepath.Base(name))
	if err := copyTo(path, io.LimitReader(from, info.Size())); err != nil {
		os.RemoveAll(own)
		return nil, err
	}
	os.RemoveAll(dir)
	return &converted{directory: own, path: path}, nil
}

func copyTo(path string, from io.Reader) error {
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
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
