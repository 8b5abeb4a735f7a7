package layout

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Filename is the name of a configuration in a model's directory.
const Filename = "config.pbtxt"

// ParseVersion reads the name of a version directory: its leading digits, so that
// "3-fixed" is version 3, without leading zeros. Other directories, such as
// "warmup" or "configs", are no versions.
func ParseVersion(name string) (int64, bool) {
	digits := 0
	for digits < len(name) && isDigit(name[digits]) {
		digits++
	}
	if digits == 0 || name[0] == '0' && len(name) > 1 {
		return 0, false
	}
	n, err := strconv.ParseInt(name[:digits], 10, 64)
	if err != nil || n < 1 {
		return 0, false
	}
	return n, true
}

// NoModel reports whether a directory of that name is no model, nor a version, in
// whatever repository it lies: a hidden one, and those that file systems, Python
// and notebooks leave behind.
func NoModel(name string) bool { return strings.HasPrefix(name, ".") || !MayLoad(name) }

// MayLoad reports whether a directory of that name can be a model that somebody
// asks for by its name: a hidden one can, as with Triton, though it is in no list.
func MayLoad(name string) bool {
	switch name {
	case ".", "..", "lost+found", "__pycache__", "__MACOSX", "@eaDir", "System Volume Information", "$RECYCLE.BIN":
		return false
	}
	return true
}

// IsModel reports whether the directory with these entries is a model rather than
// a repository: it has a configuration or the directory of a version.
func IsModel(directory string, entries []fs.DirEntry) bool {
	for _, e := range entries {
		if e.Name() == Filename {
			return true
		}
		if _, version := ParseVersion(e.Name()); version && IsDirectory(os.DirFS(directory), e) {
			return true
		}
	}
	return false
}

// FirstVersion lists the lexically first version directory: for each name
// whether it is a directory.
func FirstVersion(model fs.FS) map[string]bool {
	if model == nil {
		return nil
	}
	entries, err := fs.ReadDir(model, ".")
	if err != nil {
		return nil
	}
	for _, e := range entries { // sorted by name
		if _, ok := ParseVersion(e.Name()); !ok || !IsDirectory(model, e) {
			continue
		}
		files, err := fs.ReadDir(model, e.Name())
		if err != nil {
			return nil
		}
		content := make(map[string]bool, len(files))
		for _, f := range files {
			dir := f.IsDir()
			if f.Type()&fs.ModeSymlink != 0 {
				info, err := fs.Stat(model, e.Name()+"/"+f.Name())
				dir = err == nil && info.IsDir()
			}
			content[f.Name()] = dir
		}
		return content
	}
	return nil
}

// IsDirectory reports whether an entry of dir is a directory. It follows symbolic links, which are common in repositories.
func IsDirectory(dir fs.FS, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := fs.Stat(dir, e.Name())
	return err == nil && info.IsDir()
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
