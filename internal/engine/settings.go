package engine

import (
	"log/slog"
	"maps"
	"slices"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig/platform"
	"github.com/nesoserve/neso/internal/spelling"
)

// coreSettings are those of --backend-config that Triton's server reads itself.
var coreSettings = []string{"auto-complete-config", "backend-directory", "default-max-batch-size", "min-compute-capability"}

// settings returns what the command line says to one backend. Its own values
// win over the global ones.
func (o *Options) settings(name string) backend.Settings {
	values := map[string]string{}
	for _, of := range []string{"", name} {
		maps.Copy(values, o.BackendSettings[of])
	}
	return backend.Settings{Values: values, Directory: o.BackendDir, OptionPrefix: string(o.Words)}
}

// warnOfSettings reports the names in --backend-config that nothing reads.
// Triton ignores them without a word.
func (o *Options) warnOfSettings() {
	names, all := make([]string, 0, len(o.Backends)), slices.Clone(coreSettings)
	for i := range o.Backends {
		names = append(names, o.Backends[i].Name)
		all = append(all, o.Backends[i].Settings...)
	}
	for _, name := range slices.Sorted(maps.Keys(o.BackendSettings)) {
		known := all
		if name != "" {
			d := o.driver(name)
			if d == nil {
				o.Logger.Warn(o.Words.Name("backend-config")+" names a backend that this server does not have",
					slog.String("backend", name), spelling.Meant(platform.NearestBackend(name, names), names))
				continue
			}
			if d.Settings == nil {
				continue
			}
			known = slices.Concat(coreSettings, d.Settings)
		}
		for _, key := range slices.Sorted(maps.Keys(o.BackendSettings[name])) {
			if !spelling.Known(key, known) {
				o.Logger.Warn(o.Words.Name("backend-config")+" has a setting that is not known and has no effect",
					slog.String("backend", name), slog.String("setting", key), spelling.Meant(key, known))
			}
		}
	}
}

// driver returns the one that runs a backend's models, or nil.
func (o *Options) driver(name string) *backend.Driver {
	for i := range o.Backends {
		if d := &o.Backends[i]; d.Name == name || d.Implements != nil && d.Implements(name, o.BackendDir, "") {
			return d
		}
	}
	return nil
}
