package library

import (
	"archive/zip"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
)

// maxFile bounds what is taken out of a wheel.
const maxFile = 4 << 30

// Add copies the library and its companions out of a wheel (a zip archive) into
// <directory>/<backend>, and returns the paths it wrote. Other files of the
// wheel stay where they are. With Bundled the layout is kept below it, else only
// base names are used.
func (s *Spec) Add(wheel, directory string) ([]string, error) {
	archive, err := zip.OpenReader(wheel)
	if err != nil {
		return nil, fmt.Errorf("%s is not a wheel: %w", wheel, err)
	}
	defer archive.Close()
	to := filepath.Join(directory, s.Backend)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return nil, err
	}
	var wrote []string
	found := false
	for _, f := range archive.File {
		dir, base := path.Split(f.Name)
		dir = path.Clean(dir)
		bundled := slices.Contains(s.Bundled, dir)
		if !bundled && !slices.Contains(s.Packages, dir) || !filepath.IsLocal(base) || f.UncompressedSize64 > maxFile {
			continue
		}
		library := !bundled && matches(s.patterns(), base)
		if !library && !bundled && !matches(s.Companions, base) {
			continue
		}
		found = found || library
		place := filepath.Join(to, base)
		if len(s.Bundled) > 0 {
			place = filepath.Join(to, filepath.FromSlash(dir), base)
			if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
				return wrote, err
			}
		}
		if err := extract(f, place); err != nil {
			return wrote, err
		}
		wrote = append(wrote, place)
	}
	if !found {
		return wrote, fmt.Errorf("%s has no library of %s for %s", filepath.Base(wheel), s.Title, runtime.GOOS)
	}
	return wrote, nil
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := filepath.Match(p, name)
		return ok && err == nil
	})
}

// extract writes a file beside its place and moves it there: a server that has
// the old one open keeps it.
func extract(f *zip.File, place string) (err error) {
	from, err := f.Open()
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.CreateTemp(filepath.Dir(place), ".neso-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(to.Name())
		}
	}()
	if _, err := io.Copy(to, io.LimitReader(from, maxFile)); err != nil {
		_ = to.Close()
		return err
	}
	if err := to.Chmod(0o755); err != nil && runtime.GOOS != "windows" {
		_ = to.Close()
		return err
	}
	if err := to.Close(); err != nil {
		return err
	}
	return os.Rename(to.Name(), place)
}
