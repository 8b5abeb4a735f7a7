package repository

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
)

// Config is the file that configures a model; the zero value is none.
type Config struct {
	Text []byte
	// Path is that of the file, below the model's directory.
	Path string
}

// File returns the configuration file that the model was read with.
func (s *Snapshot) File() Config { return s.file }

// HasConfig reports whether the model was read with that configuration file.
func (s *Snapshot) HasConfig(c Config) bool {
	return s.file.Path == c.Path && bytes.Equal(s.file.Text, c.Text)
}

// Kept reports whether ReadAs has read it, with another file than there is.
func (s *Snapshot) Kept() bool { return s.kept }

// ReadAs is Read of a model as if its configuration file still were what it was, and the
// rules for its versions, which are not read. It returns nil where that is what Read reads,
// and where there is a manifest: the model is what that says, or there is none.
func (r *Repository) ReadAs(ctx context.Context, model string, was Config, log *slog.Logger) (*Snapshot, error) {
	differs := false
	s, err := r.read(ctx, model, "", nil, log, func(s *Snapshot) error {
		err := s.readConfig(r.o.ConfigName)
		s.kept = err != nil || !s.HasConfig(was)
		differs = s.kept || s.readRollout() != nil
		s.Rollout = nil
		s.Config, s.ConfigPath, s.file = was.Text, "", was
		if was.Path != "" {
			s.ConfigPath = filepath.Join(s.Directory, was.Path)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(filepath.Join(s.Directory, Manifest)); !differs || err == nil {
		s.Release()
		return nil, nil
	}
	return s, nil
}
