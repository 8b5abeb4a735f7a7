package perf

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/nesoserve/neso/internal/perf/plot"
	"github.com/nesoserve/neso/internal/wholefile"
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
		all = append(all, wholefile.Write(path, func(w io.Writer) error { return draw(w, r.Charts()) }))
	}
	if o.Export != "" {
		all = append(all, wholefile.Write(o.Export, func(w io.Writer) error { return r.Export(w, s.recorded) }))
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
	all := []error{wholefile.Write(o.Report, write)}
	if o.Format == "csv" {
		for name, write := range r.Composing() {
			all = append(all, wholefile.Write(filepath.Join(filepath.Dir(o.Report), name+"."+filepath.Base(o.Report)), write))
		}
	}
	return errors.Join(all...)
}
