package lifecycle

import (
	"log/slog"
	"os"
	"path/filepath"

	"github.com/nesoserve/neso/backend"
)

// checkRuntime refuses a model whose configuration names a runtime that is
// nowhere, as Triton does. The backends are built in, so that one which is there
// has no effect: the log says so.
func (m *maker) checkRuntime(p *plan, version int64) error {
	if _, bound := p.bound[version]; bound {
		return nil // its program runs it
	}
	runtime, name := p.draft.Runtime(), p.draft.Backend()
	folders := p.folders(version)
	d := m.backends.find(name, runtime, folders)
	if runtime == "" || d == nil || d.Name != name {
		return nil // or a python-based backend, which is its runtime
	}
	if runtime == "libtriton_"+name+".so" || runtime == "triton_"+name+".dll" {
		return nil // what Triton takes where nothing is said
	}
	if m.backends.settings != nil {
		if directory := m.backends.settings(name).Directory; directory != "" {
			folders = append(folders, filepath.Join(directory, name))
		}
	}
	if filepath.IsLocal(runtime) {
		for _, folder := range folders {
			if _, err := os.Stat(filepath.Join(folder, runtime)); err == nil {
				m.log.Warn("runtime has no effect: the model's backend is built in", slog.String("model", p.name),
					slog.Int64("version", version), slog.String("backend", name), slog.String("runtime", runtime))
				return nil
			}
		}
	}
	// Clients see this: the folders are named as seen from the repository.
	return backend.Errorf(backend.InvalidArg, "unable to find backend library '%s' for model '%s', searched: '%s/%d' '%s' '%s' of "+
		m.o.Words.Name("backend-directory")+"; backend '%s' is built in and needs no runtime",
		runtime, p.name, p.name, version, p.name, name, name)
}
