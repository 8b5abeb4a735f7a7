package native

import (
	"debug/elf"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/nesoserve/neso/backend"
)

// library is what runs a model.
type library struct {
	path string
	// folder is where the backend's own files lie.
	folder string
	// server are names by which it asks for the library of the server, other than the
	// usual one.
	server []string
}

// serverLibrary is what backends call the library of the server; wheels add a part of
// their own to the name.
const serverLibrary = "libtritonserver"

// nameOf is the file of a backend.
func nameOf(cfg, runtimeName string) string {
	if runtimeName != "" {
		return runtimeName
	}
	return "libtriton_" + cfg + ".so"
}

// finds is backend.Driver.Finds. A name that is built in means the library of that
// name only where the configuration says so and the library can be run.
func (o Options) finds(l backend.Lookup) bool {
	if runtime.GOOS != "linux" || l.Backend == "" && l.Runtime == "" || l.Runtime != "" && !strings.HasSuffix(l.Runtime, ".so") {
		return false
	}
	if l.Runtime != "" && !filepath.IsLocal(l.Runtime) {
		return !l.BuiltIn // Load says that it leads out
	}
	if l.Runtime != "" && !l.BuiltIn {
		return true // Load says where it looked
	}
	path := find(l.Folders, l.Directory, l.Backend, nameOf(l.Backend, l.Runtime))
	if path == "" || !l.BuiltIn {
		return path != ""
	}
	if _, err := o.findHost(); err != nil {
		return false
	}
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// folders are where the library of a backend may lie, in the order of the search.
func folders(of []string, directory, name string) []string {
	if directory != "" && name != "" && filepath.IsLocal(name) {
		of = append(slices.Clone(of), filepath.Join(directory, name))
	}
	return of
}

// find returns the path of the library, or "".
func find(of []string, directory, name, file string) string {
	for _, folder := range folders(of, directory, name) {
		path := filepath.Join(folder, file)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}

// library finds what runs a model. Clients see its errors.
func (d *driver) library(cfg *backend.Config) (library, error) {
	file := nameOf(cfg.Backend, runtimeOf(cfg))
	own := []string{cfg.VersionDirectory, cfg.Directory}
	if !filepath.IsLocal(file) {
		return library{}, backend.Errorf(backend.InvalidArg,
			"backend library name '%s' escapes backend directory '%s', for model '%s', check model config runtime field", file,
			d.settings.Directory, cfg.Name)
	}
	path := find(own, d.settings.Directory, cfg.Backend, file)
	if path == "" {
		// Clients see this: the folders are named as seen from the repository.
		return library{}, backend.Errorf(backend.InvalidArg,
			"unable to find backend library '%s' for model '%s', searched: '%s/%d' '%s' '%s' of "+d.settings.Option("backend-directory"),
			file, cfg.Name, cfg.Name, cfg.Version, cfg.Name, cfg.Backend)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return library{}, err
	}
	l := library{path: path, folder: filepath.Dir(path)}
	return l, l.read()
}

// runtimeOf returns the name of the library that the configuration says, or "".
func runtimeOf(cfg *backend.Config) string {
	var c struct {
		Runtime string `json:"runtime"`
	}
	_ = json.Unmarshal(cfg.JSON, &c) // it is the server's own
	return c.Runtime
}

// machines are the processors of libraries, by Go's names.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// read looks into the library: the loader has no good words for one of another
// machine.
func (l *library) read() error {
	f, err := elf.Open(l.path)
	if err != nil {
		return backend.Errorf(backend.InvalidArg, "unable to load shared library: %s: it is no shared library of Linux: %v", l.path, err)
	}
	defer f.Close()
	if want, ok := machines[runtime.GOARCH]; ok && f.Machine != want {
		return backend.Errorf(backend.InvalidArg, "unable to load shared library: %s: it is for %s, this server runs on %s", l.path,
			strings.TrimPrefix(f.Machine.String(), "EM_"), strings.TrimPrefix(want.String(), "EM_"))
	}
	needed, err := f.ImportedLibraries()
	if err != nil {
		return backend.Errorf(backend.InvalidArg, "unable to load shared library: %s: %v", l.path, err)
	}
	for _, name := range needed {
		if strings.HasPrefix(name, serverLibrary) && name != serverLibrary+".so" && filepath.Base(name) == name {
			l.server = append(l.server, name)
		}
	}
	return nil
}

// findHost returns the path of neso-host.
func (o Options) findHost() (string, error) {
	const name = "neso-host"
	var tried []string
	look := func(path string) bool {
		if path == "" {
			return false
		}
		info, err := os.Stat(path)
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return true
		}
		tried = append(tried, path)
		return false
	}
	for _, path := range []string{o.Host, os.Getenv("NESO_HOST")} {
		if path != "" {
			if look(path) {
				return filepath.Abs(path)
			}
			return "", noHost(tried)
		}
	}
	var places []string
	if self, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(self); err == nil {
			self = real
		}
		beside := filepath.Dir(self)
		places = append(places, filepath.Join(beside, name), filepath.Join(beside, "..", "build", "lib", name),
			filepath.Join(beside, "..", "lib", name))
	}
	places = append(places, filepath.Join("build", "lib", name))
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		if folder != "" {
			places = append(places, filepath.Join(folder, name))
		}
	}
	for _, path := range places {
		if look(path) {
			return filepath.Abs(path)
		}
	}
	return "", noHost(places[:max(0, min(len(places), 4))])
}

func noHost(tried []string) error {
	return backend.Errorf(backend.Unavailable,
		"backend libraries run in neso-host, which is not there (looked at %s, and on the PATH): `make capi` builds it, NESO_HOST names it",
		strings.Join(tried, ", "))
}

// Describe says for `neso backends` where neso-host is, or what to do about it.
func Describe(o Options) (path string, err error) { return o.findHost() }
