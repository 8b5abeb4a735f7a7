package agent

import (
	"crypto/md5" //nolint:gosec // the peer's agent knows no other sum
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/nesoserve/neso/backend"
)

// algorithms are the sums that can be asked for. The peer has MD5 only.
var algorithms = map[string]struct {
	name string
	make func() hash.Hash
}{
	"md5":    {"MD5", md5.New},
	"sha256": {"SHA256", sha256.New},
}

// checksums compares files with the sums in parameters, which are "MD5:1/model.py":
// hexadecimal digits. Files are taken in the order of their keys.
func checksums(dir string, parameters map[string]string) error {
	for _, k := range slices.Sorted(maps.Keys(parameters)) {
		name, path, ok := strings.Cut(k, ":")
		if !ok {
			return backend.Errorf(backend.InvalidArg, "failed to parse key: %s", k)
		}
		algorithm, ok := algorithms[strings.ToLower(name)]
		if !ok {
			return backend.Errorf(backend.Unsupported, "Unsupported checksum algorithm: %s", name)
		}
		got, err := sum(filepath.Join(dir, filepath.FromSlash(path)), path, algorithm.make())
		if err != nil {
			return err
		}
		if want := parameters[k]; !strings.EqualFold(got, want) {
			return backend.Errorf(backend.InvalidArg, "Mismatched %s hash for file %s, expect: %s, got: %s", algorithm.name, path, want, got)
		}
	}
	return nil
}

// sum returns the digits of a file's sum. A path that leads out of the model is
// refused: a mismatch says what the sum is.
func sum(file, path string, h hash.Hash) (string, error) {
	fail := func(reason string) (string, error) {
		return "", backend.Errorf(backend.InvalidArg, "failed to open text file for read %s: %s", path, reason)
	}
	if !filepath.IsLocal(filepath.FromSlash(path)) {
		return fail("the path leads out of the model's directory")
	}
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() {
		return fail("not a regular file")
	}
	var f *os.File
	if err == nil {
		f, err = os.Open(file)
	}
	if err == nil {
		defer f.Close()
		_, err = io.Copy(h, f)
	}
	if err != nil {
		return fail(reason(err))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// reason is what the C library says of an error.
func reason(err error) string {
	var number syscall.Errno
	if errors.As(err, &number) {
		if text := number.Error(); text != "" {
			return strings.ToUpper(text[:1]) + text[1:]
		}
	}
	return err.Error()
}
