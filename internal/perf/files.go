package perf

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/nesoserve/neso/internal/perf/options"
)

// write writes the files that were asked for. Each is tried, whatever became of the
// others.
func (s *session) write() error {
	o, r := s.o, s.report
	if len(r.Results) == 0 {
		return nil
	}
	var all []error
	if o.CSV != "" && o.Mode != options.Periodic {
		all = append(all, toFile(o.CSV, r.CSV))
		for name, write := range r.Composing() {
			all = append(all, toFile(filepath.Join(filepath.Dir(o.CSV), name+"."+filepath.Base(o.CSV)), write))
		}
	}
	if o.Export != "" {
		all = append(all, toFile(o.Export, func(w io.Writer) error { return r.Export(w, s.recorded) }))
	}
	return errors.Join(all...)
}

// toFile writes a file. One that cannot be written whole is an error, and what there
// is of it stays.
func toFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	err = write(f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("failed to write %s: %w", path, err)
	}
	return nil
}
