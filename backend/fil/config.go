package fil

import (
	"strconv"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/faults"
)

// Names of Triton's parameters.
const (
	paramType         = "model_type"
	paramClassifier   = "is_classifier"
	paramOutputClass  = "output_class" // the older name of is_classifier
	paramProba        = "predict_proba"
	paramThreshold    = "threshold"
	paramUnknownField = "xgboost_allow_unknown_field"
	paramThreads      = "cpu_nthread"
)

// withoutMeaning are parameters of Triton's GPU code and of code that it no
// longer has: accepted, and reported once a load.
var withoutMeaning = []string{
	"algo", "layout", "storage_type", "blocks_per_sm", "threads_per_tree", "chunk_size", "transfer_threshold",
	"use_experimental_optimizations",
}

// parameters are all that a model may have.
var parameters = append([]string{
	paramType, paramClassifier, paramOutputClass, paramProba, paramThreshold, paramUnknownField, paramThreads, Spec.Parameter,
}, withoutMeaning...)

// options are what a configuration says to this backend.
type options struct {
	format       format // "" when the file says
	classifier   bool
	proba        bool
	threshold    float64
	unknownField bool
	threads      int // 0: the model's share of the cores
}

// checkParameter is backend.Driver.CheckParameter.
func checkParameter(cfg *backend.Config, name string) error {
	_, err := readOptions(&backend.Config{Name: cfg.Name, Parameters: map[string]string{name: cfg.Parameters[name]}})
	return err
}

func readOptions(cfg *backend.Config) (*options, error) {
	o := &options{threshold: 0.5}
	boolean := func(name string, into *bool) error {
		text, ok := cfg.Parameters[name]
		if !ok {
			return nil
		}
		switch strings.ToLower(strings.TrimSpace(text)) {
		case "true", "1":
			*into = true
		case "false", "0":
			*into = false
		default:
			return backend.Errorf(backend.InvalidArg,
				"parameter '%s' of model '%s': failed to convert '%s' to boolean (write \"true\" or \"false\")", name, cfg.Name, text)
		}
		return nil
	}
	var wrong faults.List
	if word := cfg.Parameters[paramType]; word != "" {
		var err error
		o.format, err = parseFormat(word)
		wrong.Add(err)
	}
	for _, flag := range []struct {
		name string
		into *bool
	}{{paramClassifier, &o.classifier}, {paramOutputClass, &o.classifier}, {paramProba, &o.proba}, {paramUnknownField, &o.unknownField}} {
		wrong.Add(boolean(flag.name, flag.into))
	}
	if text, ok := cfg.Parameters[paramThreshold]; ok {
		v, err := strconv.ParseFloat(strings.TrimSpace(text), 32)
		if err != nil || v != v {
			wrong.Add(backend.Errorf(backend.InvalidArg, "parameter '%s' of model '%s': failed to convert '%s' to a number", paramThreshold,
				cfg.Name, text))
		}
		o.threshold = v
	}
	if text, ok := cfg.Parameters[paramThreads]; ok {
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
		if err != nil {
			wrong.Add(backend.Errorf(backend.InvalidArg, "parameter '%s' of model '%s': failed to convert '%s' to integral number", paramThreads,
				cfg.Name, text))
		}
		o.threads = max(0, int(n))
	}
	return o, wrong.Err()
}

// classes reports whether the answer is a class: else it is what the forest
// says, scores or probabilities.
func (o *options) classes() bool { return o.classifier && !o.proba }
