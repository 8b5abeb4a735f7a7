package fil

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nesoserve/neso/backend"
)

// load reads the forest of a version.
func (d *driver) load(ctx context.Context, cfg *backend.Config, o *options) (*forest, error) {
	a, err := d.library(cfg)
	if err != nil {
		return nil, err
	}
	path, err := modelFile(cfg, o.format)
	if err != nil {
		return nil, err
	}
	stamp := stampOf(path)
	if f := d.takeReady(readyKey(cfg), nil); f != nil {
		if f.api == a && f.stamp == stamp && (o.format == "" || o.format == f.format) {
			return f, nil
		}
		f.drop()
	}
	kind, err := kindOf(cfg, o, path)
	if err != nil {
		return nil, err
	}
	if kind == pickled {
		converted, err := d.convert(ctx, cfg, path)
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(converted.directory)
		f, err := a.loadFile(converted.path, converted.format, o)
		if err != nil {
			return nil, explain(cfg, path, kind, err)
		}
		f.format, f.stamp = pickled, stamp
		return f, nil
	}
	if kind == lightGBM {
		if err := checkLightGBM(path); err != nil {
			return nil, explain(cfg, path, kind, err)
		}
	}
	f, err := a.loadFile(path, kind, o)
	if err != nil {
		return nil, explain(cfg, path, kind, err)
	}
	f.stamp = stamp
	return f, nil
}

// kindOf compares what the configuration says of a file with how the file
// begins.
func kindOf(cfg *backend.Config, o *options, path string) (format, error) {
	found, err := sniff(path)
	if err != nil {
		return "", explain(cfg, path, o.format, err)
	}
	switch {
	case o.format == "" && found == "":
		return "", backend.Errorf(backend.InvalidArg,
			"unable to load model '%s': what '%s' is cannot be told from its content; it begins like none of XGBoost JSON, UBJSON and legacy, LightGBM text, a treelite checkpoint and a pickle (if it is one, say which with the parameter %s)",
			cfg.Name, shown(cfg, path), paramType)
	case o.format == "":
		return found, nil
	case found != "" && found != o.format:
		return "", backend.Errorf(backend.InvalidArg, "unable to load model '%s': the configuration expects a file of %s '%s', '%s' is of '%s' (write %s: \"%s\", or leave it out)",
			cfg.Name, paramType, o.format, shown(cfg, path), found, paramType, found)
	case found == "" && o.format != xgboostLegacy: // old files of which have no mark
		return "", backend.Errorf(backend.InvalidArg, "unable to load model '%s': '%s' is not a file of %s '%s'", cfg.Name, shown(cfg, path), paramType, o.format)
	}
	return o.format, nil
}

// explain makes an error of a load say what, where and what to do.
func explain(cfg *backend.Config, path string, kind format, err error) error {
	what := "model"
	if kind != "" {
		what = string(kind) + " model"
	}
	text := strings.ReplaceAll(err.Error(), path, shown(cfg, path))
	hint := "is the file whole? load it with the framework that wrote it"
	if kind == xgboostJSON || kind == xgboostUBJSON {
		hint += fmt.Sprintf("; if a field is unknown, a newer treelite may know it, or %s: \"true\" ignores it", paramUnknownField)
	}
	if kind == checkpoint {
		hint = "is the file whole, and of treelite 3.9 or 4?"
	}
	return backend.Errorf(backend.InvalidArg, "unable to load the %s '%s' of '%s': %s (%s)", what, shown(cfg, path), cfg.Name, text, hint)
}

// shown is a path without what lies above the model.
func shown(cfg *backend.Config, path string) string {
	if rest, ok := strings.CutPrefix(path, cfg.VersionDirectory+string(os.PathSeparator)); ok {
		return rest
	}
	return path
}

// tidy makes one line of a text with a source place in front of it.
func tidy(text string) string {
	if _, rest, ok := strings.Cut(text, "] "); ok && strings.HasPrefix(text, "[") {
		text = rest
	}
	if at, rest, ok := strings.Cut(text, ": "); ok && strings.HasPrefix(at, "/") && !strings.Contains(at, " ") {
		text = rest
	}
	return strings.Join(strings.Fields(text), " ")
}

// stampOf tells one content of a file from another, as far as its size and time
// of change do.
func stampOf(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprint(path, info.ModTime(), info.Size())
}

// readyFor is how long a forest that has completed a configuration waits for
// the load of its model.
const readyFor = time.Minute

type readyForest struct {
	forest *forest
	expire *time.Timer
}

func readyKey(cfg *backend.Config) string {
	return fmt.Sprint(cfg.Name, "\x00", cfg.Version, "\x00", cfg.VersionDirectory)
}

// keepReady keeps the forest for the load that should follow.
func (d *driver) keepReady(key string, f *forest) {
	r := &readyForest{forest: f}
	d.mu.Lock()
	old, closed := d.ready[key], d.closed
	if !closed {
		r.expire = time.AfterFunc(readyFor, func() {
			if d.takeReady(key, r) != nil {
				f.drop()
			}
		})
		d.ready[key] = r
	}
	d.mu.Unlock()
	if old != nil {
		old.expire.Stop()
		old.forest.drop()
	}
	if closed {
		f.drop()
	}
}

// takeReady takes the forest with the key out, only that of want unless nil.
func (d *driver) takeReady(key string, want *readyForest) *forest {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.ready[key]
	if r == nil || want != nil && r != want {
		return nil
	}
	delete(d.ready, key)
	r.expire.Stop()
	return r.forest
}
