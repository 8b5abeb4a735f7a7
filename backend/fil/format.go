package fil

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/modelfile"
)

// format is a kind of model file, with the word that `model_type` has for it.
type format string

const (
	xgboostLegacy format = "xgboost"
	xgboostJSON   format = "xgboost_json"
	xgboostUBJSON format = "xgboost_ubj"
	lightGBM      format = "lightgbm"
	checkpoint    format = "treelite_checkpoint"
	// pickled is a Python object: scikit-learn's, or XGBoost's and LightGBM's
	// estimators. Not Triton's.
	pickled format = "sklearn"
)

// filenames are the default names of the files of a format, Triton's first.
var filenames = map[format][]string{
	xgboostLegacy: {"xgboost.model"},
	xgboostJSON:   {"xgboost.json", "model.json"},
	xgboostUBJSON: {"xgboost.ubj", "model.ubj"},
	lightGBM:      {"model.txt"},
	checkpoint:    {"checkpoint.tl", "model.tl"},
	pickled:       {"model.pkl", "model.pickle", "model.joblib", "model.skops"},
}

// formats are all, in the order in which their files are looked for.
var formats = []format{xgboostLegacy, xgboostJSON, xgboostUBJSON, lightGBM, checkpoint, pickled}

func parseFormat(word string) (format, error) {
	if f := format(word); slices.Contains(formats, f) {
		return f, nil
	}
	words := make([]string, len(formats))
	for i, f := range formats {
		words[i] = string(f)
	}
	return "", backend.Errorf(backend.Unsupported, "%s not recognized as a valid serialization format. (model_type is one of %s)", word,
		strings.Join(words, ", "))
}

// modelFile returns the path of the model. named is what the configuration says
// of its format, or "".
func modelFile(cfg *backend.Config, named format) (string, error) {
	var names []string
	switch {
	case cfg.Filename != "":
		names = []string{cfg.Filename}
	case named != "":
		names = filenames[named]
	default:
		for _, f := range formats {
			names = append(names, filenames[f]...)
		}
	}
	for _, name := range names {
		path, err := modelfile.Path(cfg, name)
		if err != nil {
			return "", err
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", backend.Errorf(backend.Unavailable, "unable to find the model file of '%s': version %d has none of %s", cfg.Name, cfg.Version,
		strings.Join(names, ", "))
}

// headSize is how much of a file tells its format.
const headSize = 4096

// sniff tells the format of a file by how it begins; "" when it does not say.
func sniff(path string) (format, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head := make([]byte, headSize)
	n, err := io.ReadFull(f, head)
	if n == 0 {
		return "", backend.Errorf(backend.InvalidArg, "the file is empty")
	}
	if err != nil && n == headSize {
		return "", err
	}
	return formatOf(head[:n]), nil
}

// formatOf tells the format of a file by its first bytes.
func formatOf(head []byte) format {
	text := bytes.TrimLeft(head, " \t\r\n")
	switch {
	case bytes.HasPrefix(head, []byte("binf")):
		return xgboostLegacy
	case bytes.HasPrefix(text, []byte("tree\n")), bytes.HasPrefix(text, []byte("tree\r\n")):
		return lightGBM
	case len(head) > 1 && head[0] == '{' && bytes.IndexByte([]byte("LlIUi#$S"), head[1]) >= 0:
		return xgboostUBJSON
	case len(text) > 0 && text[0] == '{':
		return xgboostJSON
	case len(head) > 1 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5, // pickle
		bytes.HasPrefix(head, []byte("PK\x03\x04")), // skops
		bytes.HasPrefix(head, []byte{0x1f, 0x8b}), len(head) > 1 && head[0] == 0x78 &&
			(head[1] == 0x9c || head[1] == 0xda || head[1] == 0x5e || head[1] == 0x01):
		return pickled // joblib compresses
	case isCheckpoint(head):
		return checkpoint
	}
	return ""
}

// isCheckpoint recognizes the version that a checkpoint begins with.
func isCheckpoint(head []byte) bool {
	if len(head) < 14 {
		return false
	}
	major, minor, patch := binary.LittleEndian.Uint32(head), binary.LittleEndian.Uint32(head[4:]), binary.LittleEndian.Uint32(head[8:])
	return major >= 2 && major < 16 && minor < 256 && patch < 256 && head[12] <= 4 && head[13] <= 4
}
