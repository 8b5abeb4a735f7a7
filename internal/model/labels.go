package model

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
)

// A label file larger than this is a mistake.
const maxLabelBytes = 64 << 20

// readLabels reads the label files of the outputs: one label per line.
func readLabels(c *modelconfig.Config, directory string) (map[string][]string, error) {
	var labels map[string][]string
	for i := range c.Outputs {
		o := &c.Outputs[i]
		if o.LabelFilename == "" {
			continue
		}
		data, err := readInside(directory, o.LabelFilename, maxLabelBytes)
		if errors.Is(err, errOutside) {
			return nil, backend.Errorf(backend.Unsupported, "label file path '%s' for output '%s' in model '%s' is outside model directory",
				o.LabelFilename, o.Name, c.Name)
		}
		if err != nil {
			return nil, backend.Errorf(backend.InvalidArg, "unable to read label file '%s' for output '%s' in model '%s': %v", o.LabelFilename,
				o.Name, c.Name, err)
		}
		if labels == nil {
			labels = map[string][]string{}
		}
		text := strings.TrimSuffix(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n")
		if text != "" {
			labels[o.Name] = strings.Split(text, "\n")
		}
	}
	return labels, nil
}

var errOutside = errors.New("the path leads out of the directory")

// readInside reads a file below directory. Neither ".." nor a symbolic link
// may lead out of it, apart from directory itself being reached by one.
func readInside(directory, name string, limit int64) ([]byte, error) {
	if !filepath.IsLocal(name) {
		return nil, errOutside
	}
	root, err := os.OpenRoot(directory)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe is refused below, not waited for
	if err != nil {
		if leadsOut(directory, name) {
			return nil, errOutside
		}
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, backend.Errorf(backend.InvalidArg, "not a file of at most %d bytes", limit)
	}
	data := make([]byte, info.Size())
	n, err := f.ReadAt(data, 0)
	if int64(n) == info.Size() {
		err = nil
	}
	return data, err
}

// leadsOut explains a failure to open: whether a symbolic link is to blame.
func leadsOut(directory, name string) bool {
	base, err := filepath.EvalSymlinks(directory)
	if err != nil {
		return false
	}
	target, err := filepath.EvalSymlinks(filepath.Join(directory, name))
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(base, target)
	return err != nil || !filepath.IsLocal(rel)
}
