package modelconfig

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/backend"
)

// advise hints at what loads and is likely not meant.
func (c *inspector) advise() {
	pb := c.draft.pb
	if pb.GetDynamicBatching() != nil && pb.MaxBatchSize == 0 {
		c.hintOf("max_batch_size", "dynamic_batching without max_batch_size above 0 never batches, unless the backend completes max_batch_size")
	}
	for i, w := range pb.ModelWarmup {
		if w.BatchSize == 0 {
			c.hintOf("model_warmup["+strconv.Itoa(i)+"].batch_size", "model_warmup[%d]: a sample without batch_size is skipped", i)
		}
	}
	directory := c.Directory
	if c.Custom {
		directory = ""
	}
	for _, idle := range c.draft.Idle(directory) {
		c.hintOf(idle.Field, "%s", idle)
	}
	for i, step := range pb.GetEnsembleScheduling().GetStep() {
		at := "ensemble_scheduling.step[" + strconv.Itoa(i) + "]"
		if step.ModelVersion == 0 {
			c.hintOf(at+".model_version", "%s: model_version is not set and so means version 0; -1 means the latest", at)
		}
		if !c.Custom && len(c.Options.Repositories) > 0 && step.ModelName != "" && !c.available(step.ModelName) {
			f := c.draft.fault(at+".model_name", "ensemble "+pb.Name+" contains models that are not available or ambiguous: "+step.ModelName,
				"a model of the repositories", quote(step.ModelName))
			f.Hint = "of several repositories give each as a PATH"
			c.add(f)
		}
	}
}

// available reports whether one of the repositories has the model.
func (c *inspector) available(model string) bool {
	if !isLocal(model) {
		return false
	}
	for _, repository := range append([]string{filepath.Join(c.Directory, "..")}, c.Options.Repositories...) {
		if info, err := os.Stat(filepath.Join(repository, model)); err == nil && info.IsDir() {
			return true
		}
	}
	return false
}

// versions checks that the version policy leaves something to serve.
func (c *inspector) versions() {
	entries, err := os.ReadDir(c.Directory)
	if err != nil {
		c.add(Fault{File: c.Shown, Hint: err.Error()})
		return
	}
	var available []int64
	for _, e := range entries {
		if !isDirectory(os.DirFS(c.Directory), e) {
			continue
		}
		if v, ok := ParseVersion(e.Name()); ok {
			available = append(available, v)
		} else if isDigit(e.Name()[0]) {
			c.hint("directory %q is no version: a version is a number without leading zeros", e.Name())
		}
	}
	serve, missing := versionPolicy(c.draft.pb.VersionPolicy).Select(available)
	for _, v := range missing {
		c.hintOf("version_policy", "version %d of the version policy has no directory and is skipped", v)
	}
	latest := c.draft.pb.VersionPolicy.GetLatest()
	told := latest != nil && latest.NumVersions == 0 // a fault of its own, which no directory mends
	if len(serve) == 0 && !told {
		wanted := "1"
		if len(missing) > 0 {
			wanted = strconv.FormatInt(missing[0], 10)
		}
		c.add(c.draft.fault("version_policy", NoVersion(c.draft.pb.Name, missing),
			"a version directory such as "+strconv.Quote(filepath.Join(c.Shown, wanted)), strconv.Itoa(len(available))+" versions"))
	}
	c.report.Versions = serve
}

// modelFiles checks that every served version has its file. A backend that is
// not ours may do without.
func (c *inspector) modelFiles(versions []int64) {
	pb := c.draft.pb
	known := false
	for i := range platformRules {
		known = known || platformRules[i].backend == pb.Backend
	}
	if !known || pb.DefaultModelFilename == "" || len(pb.CcModelFilenames) > 0 {
		return
	}
	for _, v := range versions {
		file := filepath.Join(strconv.FormatInt(v, 10), pb.DefaultModelFilename)
		if _, err := os.Stat(filepath.Join(c.Directory, file)); err != nil {
			c.add(Fault{File: c.draft.file, Path: "default_model_filename", Expected: "the file " + strconv.Quote(filepath.Join(c.Shown, file)), Found: "none", lacks: pb.DefaultModelFilename})
		}
	}
}

// files checks that the files which the configuration names are there.
func (c *inspector) files() {
	pb := c.draft.pb
	c.modelFiles(c.report.Versions)
	must := func(path string, parts ...string) {
		for _, p := range parts {
			if !isLocal(p) {
				return // said by validation
			}
		}
		within := filepath.Join(parts...)
		if _, err := os.Stat(filepath.Join(c.Directory, within)); err == nil {
			return
		}
		file := filepath.Join(c.Shown, within)
		f := c.draft.fault(path, "failed to open text file for read "+file+": No such file or directory", "a file", "none")
		if len(parts) > 1 {
			f.Text = "failed to open file for read " + file + ": No such file or directory"
		}
		f.Code, f.lacks = backend.Internal, parts[len(parts)-1]
		c.add(f)
	}
	for i, out := range pb.Output {
		if out.LabelFilename != "" {
			must("output["+strconv.Itoa(i)+"].label_filename", out.LabelFilename)
		}
	}
	for i, w := range pb.ModelWarmup {
		for name, in := range w.Inputs {
			if file := in.GetInputDataFile(); file != "" && w.BatchSize > 0 {
				must(mapPath("model_warmup["+strconv.Itoa(i)+"].inputs", name)+".input_data_file", "warmup", file)
			}
		}
	}
	for i, s := range pb.GetSequenceBatching().GetState() {
		for j, init := range s.InitialState {
			if file := init.GetDataFile(); file != "" {
				must("sequence_batching.state["+strconv.Itoa(i)+"].initial_state["+strconv.Itoa(j)+"].data_file", "initial_state", file)
			}
		}
	}
}

// NoVersion is the fault of a model whose version policy finds nothing to serve;
// it names the versions that the policy names and that are not there.
func NoVersion(model string, missing []int64) string {
	text := "at least one version must be available under the version policy of model '" + model + "'"
	if len(missing) == 0 {
		return text
	}
	names := make([]string, len(missing))
	for i, v := range missing {
		names[i] = strconv.FormatInt(v, 10)
	}
	return text + ": there is no directory of version " + strings.Join(names, ", ")
}
