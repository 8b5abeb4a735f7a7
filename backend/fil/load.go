package fil

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/library"
	"github.com/nesoserve/neso/backend/internal/modelfile"
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
	stamp := modelfile.Stamp(path)
	if f, ok := d.ready.Take(cfg); ok {
		if f.api == a && f.stamp == stamp && (o.format == "" || o.format == f.format) {
			return f, nil
		}
		f.Drop()
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
	if check := map[format]func(string) error{lightGBM: checkLightGBM, checkpoint: checkCheckpoint}[kind]; check != nil {
		if err := check(path); err != nil {
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
			"unable to load model '%s': what '%s' is cannot be told from its content; it begins like none of XGBoost JSON, UBJSON and legacy, "+
				"LightGBM text, a treelite checkpoint and a pickle (if it is one, say which with the parameter %s)",
			cfg.Name, shown(cfg, path), paramType)
	case o.format == "":
		return found, nil
	case found != "" && found != o.format:
		return "", backend.Errorf(backend.InvalidArg,
			"unable to load model '%s': the configuration expects a file of %s '%s', '%s' is of '%s' (write %s: \"%s\", or leave it out)",
			cfg.Name, paramType, o.format, shown(cfg, path), found, paramType, found)
	case found == "" && o.format != xgboostLegacy: // old files of which have no mark
		return "", backend.Errorf(backend.InvalidArg, "unable to load model '%s': '%s' is not a file of %s '%s'", cfg.Name, shown(cfg, path),
			paramType, o.format)
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
	if memory := library.MemoryHint(text); memory != "" {
		return backend.Errorf(backend.Unavailable, "unable to load the %s '%s' of '%s': %s%s", what, shown(cfg, path), cfg.Name, text, memory)
	}
	if kind == xgboostUBJSON && strings.Contains(text, "sax_parse(") { // the library tells its own source line
		text = "it is no UBJSON"
		if info, err := os.Stat(path); err == nil {
			text = fmt.Sprintf("its %d bytes are no whole UBJSON: it is cut off or damaged", info.Size())
		}
	}
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
