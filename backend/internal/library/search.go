package library

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/nesoserve/neso/backend"
)

// find walks the places and returns the first file, who named it, and the
// places that had none. An empty path leaves the search to the system.
func (s *Spec) find(p Locations) (path, source string, tried []string, err error) {
	if p.Named != "" {
		named := p.Named
		if !filepath.IsAbs(named) {
			named = filepath.Join(p.Base, named)
		}
		path, err := s.named(named, "the model's configuration")
		return path, "the model's configuration", nil, err
	}
	if p.BackendDirectory != "" {
		for _, dir := range []string{filepath.Join(p.BackendDirectory, s.Backend), p.BackendDirectory} {
			for _, place := range append([]string{dir}, s.below(dir)...) {
				if path := s.in(place); path != "" {
					return path, p.OptionPrefix + "backend-directory", nil, nil
				}
			}
		}
		tried = append(tried, p.OptionPrefix+"backend-directory"+"="+p.BackendDirectory)
	} else {
		tried = append(tried, p.OptionPrefix+"backend-directory"+" (not given)")
	}
	if p.Getenv != nil {
		if named := p.Getenv(s.Variable()); named != "" {
			path, err := s.named(named, s.Variable())
			return path, s.Variable(), nil, err
		}
	}
	tried = append(tried, s.Variable()+" (not set)")
	if p.Python != nil {
		interpreter, err := p.Python()
		if err != nil {
			return "", "", append(tried, "site-packages ("+err.Error()+")"), nil
		}
		dirs, err := sitePackages(interpreter)
		if err != nil {
			return "", "", append(tried, "site-packages of "+interpreter+" ("+err.Error()+")"), nil
		}
		without := ""
		for _, dir := range dirs {
			for _, place := range s.below(dir) {
				if path := s.in(place); path != "" {
					return path, "the packages of " + interpreter, nil, nil
				}
				if _, err := os.Stat(place); err == nil {
					without = " (its " + s.Install + " has no C library: upgrade it)"
				}
			}
		}
		tried = append(tried, "the packages of "+interpreter+without)
	}
	return "", "", tried, nil
}

// Beside reports whether the library, as the search finds it, has a file that
// matches the pattern beside it: what it opens itself, for example for a GPU. It
// is false for a library that only the system knows.
func (s *Spec) Beside(p Locations, pattern string) bool {
	path, _, _, err := s.find(p)
	if err != nil || path == "" {
		return false
	}
	found, err := filepath.Glob(filepath.Join(globQuote(filepath.Dir(path)), pattern))
	return err == nil && len(found) > 0
}

// named resolves a path that somebody gave: a file, or a directory with one.
func (s *Spec) named(path, by string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", backend.Errorf(backend.NotFound, "%s is not found at '%s', which %s names", s.Title, path, by)
	}
	if !info.IsDir() {
		return path, nil
	}
	for _, dir := range append([]string{path}, s.below(path)...) {
		if file := s.in(dir); file != "" {
			return file, nil
		}
	}
	return "", backend.Errorf(backend.NotFound, "%s is not found: the directory '%s', which %s names, has no file %v", s.Title, path, by,
		s.patterns())
}

// below returns where the library lies in a directory that holds packages.
func (s *Spec) below(dir string) []string {
	var all []string
	for _, pkg := range s.Packages {
		all = append(all, filepath.Join(dir, filepath.FromSlash(pkg)))
	}
	return all
}

// in returns the library in a directory, or "".
func (s *Spec) in(dir string) string {
	for _, pattern := range s.patterns() {
		matches, err := filepath.Glob(filepath.Join(globQuote(dir), pattern))
		if err != nil {
			continue
		}
		slices.Sort(matches)
		for _, m := range slices.Backward(matches) {
			if info, err := os.Stat(m); err == nil && info.Mode().IsRegular() {
				return m
			}
		}
	}
	return ""
}

// globQuote makes a directory name match itself; on Windows, where a backslash
// separates, names with pattern characters are left as they are.
func globQuote(dir string) string {
	if os.PathSeparator == '\\' {
		return dir
	}
	quoted := make([]byte, 0, len(dir))
	for i := range len(dir) {
		switch dir[i] {
		case '*', '?', '[', '\\':
			quoted = append(quoted, '\\')
		}
		quoted = append(quoted, dir[i])
	}
	return string(quoted)
}
