package perf

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/nesoserve/neso/internal/perf/plot"
)

// write writes the files that were asked for. Each is tried, whatever became of the
// others.
func (s *session) write() error {
	o, r := s.o, s.report
	if len(r.Results) == 0 {
		return nil
	}
	all := []error{s.writeReport()}
	for _, path := range o.Plots {
		draw := plot.SVG
		if strings.EqualFold(filepath.Ext(path), ".png") {
			draw = plot.PNG
		}
		all = append(all, toFile(path, func(w io.Writer) error { return draw(w, r.Charts()) }))
	}
	if o.Export != "" {
		all = append(all, toFile(o.Export, func(w io.Writer) error { return r.Export(w, s.recorded) }))
	}
	return errors.Join(all...)
}

// writeReport writes the report into its file, or to the output if it has none.
func (s *session) writeReport() error {
	o, r := s.o, s.report
	write := map[string]func(io.Writer) error{"csv": r.CSV, "json": r.JSON, "html": r.HTML}[o.Format]
	switch {
	case o.ReportOut():
		if err := write(s.out); err != nil {
			return fmt.Errorf("failed to write the report: %w", err)
		}
		return nil
	case o.Report == "":
		return nil
	}
	all := []error{toFile(o.Report, write)}
	if o.Format == "csv" {
		for name, write := range r.Composing() {
			all = append(all, toFile(filepath.Join(filepath.Dir(o.Report), name+"."+filepath.Base(o.Report)), write))
		}
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
