package repository

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/processors"
	"github.com/nesoserve/neso/internal/repository/agent"
	"github.com/nesoserve/neso/internal/repository/source"
	"github.com/nesoserve/neso/internal/repository/source/memory"
	"github.com/nesoserve/neso/internal/rollout"
)

// maxConfig bounds the size of a configuration file. The largest one that
// makes sense has some thousand lines.
const maxConfig = 16 << 20

// Snapshot is what storage held for one model when it was read. Its directory
// stays until the last Release.
type Snapshot struct {
	Name      string
	Directory string
	// Config is the configuration's text, nil when there is none. ConfigPath says
	// where it came from; it is empty for a configuration that came with a
	// request, which is JSON.
	Config     []byte
	ConfigPath string
	// Rollout is the text of the rules for the versions, nil where there is no such file.
	Rollout []byte
	// Versions are those that exist, ascending.
	Versions []int64
	// Renamed says that Name stands above what the directory and the
	// configuration say.
	Renamed bool
	// Overridden says that files of a request stand in place of the repository's.
	Overridden bool
	// Agents are the repository agents that were told of the load, nil for none. They are
	// told of its end with the last Release.
	Agents *agent.Chain

	bound bool   // by a program
	file  Config // that Config came from
	kept  bool   // see ReadAs

	directories map[int64]string
	stamps      map[int64]source.Stamp
	common      source.Stamp // of all but the versions
	beside      source.Stamp // of all but the versions and configurations
	origin      string       // see source.Directory
	refs        atomic.Int32
	release     func() error
}

// Read looks at one model. config, when not empty, is JSON that replaces the
// configuration file; files, when there are any, replace the whole directory.
// Every other error than a bad name is a failure to poll; see Incomplete.
func (r *Repository) Read(ctx context.Context, model, config string, files map[string][]byte, log *slog.Logger) (*Snapshot, error) {
	return r.read(ctx, model, config, files, log, func(s *Snapshot) error {
		processors.GiveWay() // all the directories have been read
		if config != "" {
			s.Config = []byte(config)
		} else if err := s.readConfig(r.o.ConfigName); err != nil {
			return err
		}
		return s.readRollout()
	})
}

// read is Read with what reads the configuration and the rules.
func (r *Repository) read(ctx context.Context, model, config string, files map[string][]byte, log *slog.Logger,
	configure func(s *Snapshot) error,
) (*Snapshot, error) {
	_, name := r.split(model)
	if err := CheckName(name); err != nil {
		return nil, err
	}
	s := &Snapshot{Name: name}
	s.refs.Store(1)
	dir, err := r.fetch(ctx, s, model, config, files)
	if err != nil {
		return nil, err
	}
	s.Directory, s.Renamed, s.release, s.origin = dir.Path, dir.Renamed, dir.Release, dir.Origin
	if s.origin == "" {
		s.origin = s.Directory
	}
	// Files of a request make a directory like another: they bring their manifest.
	if err = checkManifest(ctx, s.Directory, r.o.RequireManifest); err == nil {
		err = s.read(log, configure)
	}
	if err != nil {
		s.Release()
		return nil, err
	}
	return s, nil
}

func (r *Repository) fetch(ctx context.Context, s *Snapshot, model, config string, files map[string][]byte) (source.Directory, error) {
	if len(files) > 0 {
		if config == "" {
			return source.Directory{}, backend.Errorf(backend.InvalidArg, "override files of model '%s' need the parameter 'config' too", s.Name)
		}
		s.Overridden = true
		return memory.Write(r.o.TempDir, s.Name, files, r.o.Readable)
	}
	src, err := r.find(ctx, model)
	if err != nil {
		return source.Directory{}, err
	}
	return src.Fetch(ctx, s.Name)
}

func (s *Snapshot) read(log *slog.Logger, configure func(s *Snapshot) error) error {
	if err := s.readVersions(log); err != nil {
		return err
	}
	if err := configure(s); err != nil {
		return err
	}
	return s.stamp()
}

// readRollout reads the rules for the versions. They are no part of what the versions
// are made of: no stamp has them.
func (s *Snapshot) readRollout() error {
	path := filepath.Join(s.Directory, rollout.File)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !info.Mode().IsRegular() {
		return backend.Errorf(backend.InvalidArg, "%s of model '%s' is not a file", rollout.File, s.Name)
	}
	if err == nil && info.Size() > rollout.MaxText {
		return backend.Errorf(backend.InvalidArg, "%s of model '%s' has %d bytes, the limit is %d", rollout.File, s.Name, info.Size(),
			rollout.MaxText)
	}
	if err == nil {
		s.Rollout, err = os.ReadFile(path)
	}
	if err != nil {
		return backend.Errorf(backend.Internal, "failed to read %s of model '%s'", rollout.File, s.Name)
	}
	if s.Rollout == nil {
		s.Rollout = []byte{}
	}
	return nil
}

func (s *Snapshot) readVersions(log *slog.Logger) error {
	entries, err := os.ReadDir(s.Directory)
	if err != nil {
		return backend.Errorf(backend.Internal, "failed to open directory %s", s.Directory)
	}
	s.directories = map[int64]string{}
	for _, e := range entries {
		path := filepath.Join(s.Directory, e.Name())
		info, err := os.Stat(path) // follows links, which repositories use for versions
		if err != nil || !info.IsDir() {
			continue
		}
		version, ok, ignored := ParseVersion(e.Name())
		if ignored && e.Name() != samples {
			log.Warn("ignore version directory '"+e.Name()+"' which fails to convert to integral number", "model", s.Name)
		}
		if !ok {
			continue
		}
		if other, twice := s.directories[version]; twice {
			log.Warn("two directories stand for one version, the second is ignored", "model", s.Name, "version", version, "used",
				filepath.Base(other), "ignored", e.Name())
			continue
		}
		s.directories[version] = path
	}
	s.Versions = slices.Sorted(maps.Keys(s.directories))
	return nil
}

func (s *Snapshot) readConfig(configName string) error {
	candidates := []string{filepath.Join(s.Directory, "config.pbtxt")}
	if configName != "" && filepath.IsLocal(configName) {
		candidates = slices.Insert(candidates, 0, filepath.Join(s.Directory, "configs", configName+".pbtxt"))
	}
	for _, path := range candidates {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || !info.Mode().IsRegular() {
			return backend.Errorf(backend.Internal, "failed to read text proto from %s", path)
		}
		if info.Size() > maxConfig {
			return backend.Errorf(backend.InvalidArg, "configuration %s has %d bytes, the limit is %d", path, info.Size(), maxConfig)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return backend.Errorf(backend.Internal, "failed to read text proto from %s", path)
		}
		if text == nil {
			text = []byte{}
		}
		s.Config, s.ConfigPath = text, path
		s.file = Config{text, s.relative(path)}
		return nil
	}
	return nil
}

// VersionDirectory returns the directory of a version.
func (s *Snapshot) VersionDirectory(version int64) string { return s.directories[version] }

// Move has the model loaded from another directory, where an agent has put its files.
// The name stays, whatever that directory is called.
func (s *Snapshot) Move(directory string, log *slog.Logger) error {
	s.Directory, s.Renamed = directory, true
	return s.readVersions(log)
}

// Retain keeps the directory for one more user.
func (s *Snapshot) Retain() *Snapshot {
	s.refs.Add(1)
	return s
}

// Release ends a use of the directory. The last one tells the agents, which takes its
// time where there are any, and removes what was made for the snapshot.
func (s *Snapshot) Release() {
	if s.refs.Add(-1) > 0 {
		return
	}
	s.Agents.End()
	if s.release != nil {
		_ = s.release() // a temporary directory that stays is the worst case
	}
}

// samples is the directory of a model for `neso test-model`.
const samples = "samples"
