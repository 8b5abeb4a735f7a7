package library

import (
	"errors"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/processors"
)

// Options configure a backend over a C library; the zero value uses a library of the
// backend directory, the environment or the system.
type Options struct {
	// Interpreter returns the Python interpreter whose packages are searched for
	// the library; may be nil. Its error calls the setting option.
	Interpreter func(option string) (string, error)
}

// Spec says what a library is called and where its package puts it.
type Spec struct {
	// Backend is the backend's name, for example "onnxruntime": a directory of
	// that name below --backend-directory is searched, and the environment
	// variable NESO_<BACKEND>_LIBRARY names the file or its directory.
	Backend string
	// Title is what people call the library, for example "ONNX Runtime".
	Title string
	// Linux, Darwin and Windows are file name patterns (as of filepath.Match), the
	// best first; of several matches of a pattern the last by name is taken.
	Linux, Darwin, Windows []string
	// Packages are the directories of the library below site-packages.
	Packages []string
	// Companions are patterns of files that must lie beside the library when it is
	// copied out of its wheel, for example what it opens itself.
	Companions []string
	// Bundled are directories of the wheel with libraries that the library finds by
	// its own place relative to them: with them the wheel's layout is kept.
	Bundled []string
	// Install is the name to give to pip.
	Install string
	// Parameter is that of a model's configuration which names the library or its
	// directory.
	Parameter string
	// Before, if not nil, readies what the library needs while it is being opened: one
	// that misses it there may end the process. path is that of the file, "" where the
	// system looks for it; p has no Named.
	Before func(path string, p Locations) error
}

// Locations are where a library is searched, beside what its Spec says.
type Locations struct {
	// Named is the file or directory that the model's configuration names, or "".
	// A relative path starts at Base.
	Named, Base string
	// BackendDirectory is --backend-directory, or "".
	BackendDirectory string
	// OptionPrefix is what messages put before the name of a setting of the server.
	OptionPrefix string
	// Python returns the interpreter whose site-packages are searched; may be nil.
	Python func() (string, error)
	// Getenv is os.Getenv; nil means that no variable is set.
	Getenv func(string) string
}

// patterns returns the file name patterns of this platform.
func (s *Spec) patterns() []string {
	switch runtime.GOOS {
	case "darwin":
		return s.Darwin
	case "windows":
		return s.Windows
	default:
		return s.Linux
	}
}

// Variable is the environment variable that names the library.
func (s *Spec) Variable() string {
	return "NESO_" + strings.ToUpper(strings.ReplaceAll(s.Backend, "-", "_")) + "_LIBRARY"
}

// Open searches the library and opens it, in this order: what the model's
// configuration names, --backend-directory, the environment variable, the
// interpreter's site-packages, the system. A place that names a file that
// cannot be opened ends the search with an error; when there is none at all,
// the error (NotFound) says what to install. A library is never closed: it may
// have threads of its own, and the same path opened again is the same library.
func (s *Spec) Open(p Locations) (*Library, error) {
	path, source, tried, err := s.find(p)
	if err != nil {
		return nil, err
	}
	before := func() error { return nil }
	if s.Before != nil {
		before = func() error {
			p.Named = ""
			return s.Before(path, p)
		}
	}
	if path == "" {
		return s.openSystem(tried, before)
	}
	if err := before(); err != nil {
		return nil, err
	}
	l, err := openFile(path)
	if err != nil {
		return nil, backend.Errorf(backend.Unavailable, "%s cannot be opened: %v (found through %s)", s.Title, err, source)
	}
	processors.Keep() // from here on there may be calls into it
	l.Source = source
	return l, nil
}

// openSystem leaves the search to the dynamic loader.
func (s *Spec) openSystem(tried []string, before func() error) (*Library, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	var names []string
	if before() == nil {
		names = s.patterns()
	}
	for _, pattern := range names {
		name := strings.TrimSuffix(pattern, ".*")
		if strings.ContainsAny(name, "*?[") {
			continue
		}
		if l, err := openFile(name); err == nil {
			processors.Keep()
			l.Source = "the system"
			return l, nil
		}
	}
	return nil, backend.Errorf(backend.NotFound,
		"%s is not found: install it with 'neso backends add %s' or 'pip install %s', or name its library in %s; searched: %s",
		s.Title, s.Backend, s.Install, s.Variable(), strings.Join(append(tried, "the system"), ", "))
}

// Library is an open C library.
type Library struct {
	// Path is the file, or the bare name that the system resolved.
	Path string
	// Source says which place of the search named it, for messages.
	Source string
	handle uintptr
}

// ErrUnsupported says that this build cannot open C libraries.
var ErrUnsupported = errors.New(
	"this build of Neso cannot open C libraries (it was built with the tag nopurego, or for a platform without a dynamic loader)")

// Name returns the file name of the library.
func (l *Library) Name() string { return filepath.Base(l.Path) }
