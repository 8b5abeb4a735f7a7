package python

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

const (
	// archiveFiles and archiveBytes bound what an archive may unpack to; real
	// environments have some 10^5 files and 10^10 bytes.
	archiveFiles = 2_000_000
	archiveBytes = 64 << 30
)

var errUnsafeArchive = errors.New("the archive is not safe to unpack")

// extractArchive unpacks a .tar.gz into dir. Nothing is written outside of
// dir: names must be relative and without "..", links must stay inside, and
// os.Root holds every step to it.
func extractArchive(archive, dir string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	tr := tar.NewReader(zr)
	var files int
	left := int64(archiveBytes)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if files++; files > archiveFiles {
			return fmt.Errorf("%w: more than %d files", errUnsafeArchive, archiveFiles)
		}
		if left -= h.Size; left < 0 {
			return fmt.Errorf("%w: more than %d bytes", errUnsafeArchive, int64(archiveBytes))
		}
		if err := extractEntry(root, tr, h); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
}

func extractEntry(root *os.Root, r io.Reader, h *tar.Header) error {
	name := path.Clean(h.Name)
	if name == "." {
		return nil
	}
	if !fs.ValidPath(name) || !filepath.IsLocal(filepath.FromSlash(name)) {
		return fmt.Errorf("%w: the name leads out of it", errUnsafeArchive)
	}
	local := filepath.FromSlash(name)
	if parent := filepath.Dir(local); parent != "." {
		if err := root.MkdirAll(parent, 0o755); err != nil {
			return err
		}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(local, 0o755)
	case tar.TypeReg:
		mode := os.FileMode(0o644)
		if h.Mode&0o111 != 0 {
			mode = 0o755
		}
		f, err := root.OpenFile(local, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err != nil {
			return err
		}
		_, err = io.CopyN(f, r, h.Size)
		return errors.Join(err, f.Close())
	case tar.TypeSymlink:
		if path.IsAbs(h.Linkname) || !within(path.Join(path.Dir(name), h.Linkname)) {
			return fmt.Errorf("%w: the link to '%s' leads out of it", errUnsafeArchive, h.Linkname)
		}
		return root.Symlink(filepath.FromSlash(h.Linkname), local)
	case tar.TypeLink:
		target := path.Clean(h.Linkname)
		if !fs.ValidPath(target) {
			return fmt.Errorf("%w: the link to '%s' leads out of it", errUnsafeArchive, h.Linkname)
		}
		return root.Link(filepath.FromSlash(target), local)
	case tar.TypeXGlobalHeader:
		return nil
	default:
		return fmt.Errorf("%w: entry of type '%c'", errUnsafeArchive, h.Typeflag)
	}
}

// within reports whether a cleaned relative path stays where it starts.
func within(p string) bool { return p != ".." && !strings.HasPrefix(p, "../") && !path.IsAbs(p) }
