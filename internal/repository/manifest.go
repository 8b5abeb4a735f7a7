package repository

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/nesoserve/neso/backend"
)

// Manifest is the file of a model's directory that says what the directory
// holds when it is complete: lines as `sha256sum` writes them.
const Manifest = "manifest.sha256"

// maxManifest bounds the size of a manifest: some hundred thousand files.
const maxManifest = 32 << 20

// incomplete is the error of a model whose directory is not what its manifest
// says: somebody is still writing it, or the copy is damaged.
type incomplete struct{ cause *backend.Error }

func (e *incomplete) Error() string { return e.cause.Message }
func (e *incomplete) Unwrap() error { return e.cause }

// Incomplete reports whether err is about a directory that is not what its
// manifest says it will be.
func Incomplete(err error) bool {
	_, ok := errors.AsType[*incomplete](err)
	return ok
}

func notComplete(format string, args ...any) error {
	return &incomplete{backend.Errorf(backend.InvalidArg, "the model's directory is not complete: "+format, args...)}
}

// checkManifest compares a model's directory with its manifest. Without one it
// is complete, unless required says that there must be one.
func checkManifest(ctx context.Context, dir string, required bool) error {
	sums, err := readManifest(filepath.Join(dir, Manifest))
	if errors.Is(err, fs.ErrNotExist) {
		if required {
			return notComplete("it has no %s", Manifest)
		}
		return nil
	}
	if err != nil {
		return err
	}
	// What is cheap comes first: while a copy is on its way, files are missing.
	for path := range sums {
		if info, err := os.Stat(filepath.Join(dir, path)); err != nil || !info.Mode().IsRegular() {
			return notComplete("%s names %s, which is not there", Manifest, filepath.ToSlash(path))
		}
	}
	if path := unlisted(dir, sums); path != "" {
		return notComplete("%s is not in %s", filepath.ToSlash(path), Manifest)
	}
	for path, want := range sums {
		got, err := fileSum(ctx, filepath.Join(dir, path))
		if ctx.Err() != nil {
			return backend.Errorf(backend.Cancelled, "the server stops")
		}
		if err != nil {
			return notComplete("%s cannot be read: %v", filepath.ToSlash(path), err)
		}
		if got != want {
			return notComplete("%s has not the sum that %s says", filepath.ToSlash(path), Manifest)
		}
	}
	return nil
}

// readManifest returns the sums by local path.
func readManifest(file string) (map[string][sha256.Size]byte, error) {
	f, err := openRegular(file)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return nil, notComplete("%s cannot be read: %v", Manifest, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > maxManifest {
		return nil, notComplete("%s is no file of at most %d bytes", Manifest, maxManifest)
	}
	sums, err := parseManifest(f)
	if err != nil {
		return nil, notComplete("%s %v", Manifest, err) // its end may not have come yet
	}
	return sums, nil
}

// openRegular opens a regular file for reading. It refuses anything else at once:
// to open a pipe that nobody writes to would wait.
func openRegular(file string) (*os.File, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no file")
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// parseManifest reads lines of 64 hexadecimal digits, a blank, a blank or a
// star, and a path below the model's directory. A line that begins with a backslash
// has a name with backslashes or line ends, escaped; elsewhere a backslash is the
// separator of the Windows that the line was written on.
func parseManifest(r io.Reader) (map[string][sha256.Size]byte, error) {
	sums := map[string][sha256.Size]byte{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSuffix(lines.Text(), "\r")
		if line == "" || line[0] == '#' {
			continue
		}
		line, escaped := strings.CutPrefix(line, `\`)
		const digits = 2 * sha256.Size
		var sum [sha256.Size]byte
		if len(line) < digits+3 || line[digits] != ' ' || line[digits+1] != ' ' && line[digits+1] != '*' {
			return nil, fmt.Errorf("line %d: expected 64 hexadecimal digits, two blanks and a path", n)
		}
		if _, err := hex.Decode(sum[:], []byte(line[:digits])); err != nil {
			return nil, fmt.Errorf("line %d: expected 64 hexadecimal digits, two blanks and a path", n)
		}
		path := line[digits+2:]
		if escaped {
			path = unescape.Replace(path)
		} else {
			path = strings.ReplaceAll(path, `\`, "/")
		}
		path = filepath.Clean(filepath.FromSlash(path))
		if !filepath.IsLocal(path) || path == "." || strings.ContainsRune(path, 0) {
			return nil, fmt.Errorf("line %d: the path leads out of the model's directory", n)
		}
		if path == Manifest {
			continue // written by a pattern that met the manifest itself
		}
		sums[path] = sum
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(sums) == 0 {
		return nil, errors.New("names no files")
	}
	return sums, nil
}

// unescape makes a name of what sha256sum writes of one with backslashes and line ends.
var unescape = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r")

// unlisted returns a file that the manifest does not name: one of an older
// version that is still to be deleted. Names that begin with a dot and Python's
// caches do not count.
func unlisted(dir string, sums map[string][sha256.Size]byte) (found string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		rel, bad := filepath.Rel(dir, path)
		switch {
		case err != nil || bad != nil || rel == ".":
			return nil // what cannot be looked at cannot be loaded either
		case d.Name() == "__pycache__" || strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if _, ok := sums[rel]; ok || !d.Type().IsRegular() || rel == Manifest {
			return nil
		}
		found = rel
		return fs.SkipAll
	})
	return found
}

func fileSum(ctx context.Context, path string) (sum [sha256.Size]byte, err error) {
	f, err := openRegular(path)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	piece := make([]byte, 1<<20)
	for ctx.Err() == nil {
		n, err := f.Read(piece)
		h.Write(piece[:n])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return sum, err
		}
	}
	h.Sum(sum[:0])
	return sum, nil
}
