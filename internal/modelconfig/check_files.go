package modelconfig

import (
	"os"
	"path/filepath"
	"strconv"

	"github.com/nesoserve/neso/backend"
)

// advise hints at what loads and is likely not meant.
func (c *checker) advise() {
	pb := c.draft.pb
	if pb.GetDynamicBatching() != nil && pb.MaxBatchSize == 0 {
		c.hintOf("max_batch_size", "dynamic_batching without max_batch_size above 0 never batches, unless the backend completes max_batch_size")
	}
	for i, w := range pb.ModelWarmup {
		if w.BatchSize == 0 {
			c.hintOf("model_warmup["+strconv.Itoa(i)+"].batch_size", "model_warmup[%d]: a sample without batch_size is skipped", i)
		}
	}
	for i, step := range pb.GetEnsembleScheduling().GetStep() {
		at := "ensemble_scheduling.step[" + strconv.Itoa(i) + "]"
		if step.ModelVersion == 0 {
			c.hintOf(at+".model_version", "%s: model_version is not set and so means version 0; -1 means the latest", at)
		}
		if c.custom || step.ModelName == "" || !isLocal(step.ModelName) {
			continue
		}
		if _, err := os.Stat(filepath.Join(c.Directory, "..", step.ModelName)); err != nil {
			c.hintOf(at+".model_name", "%s: model %q is not in the same repository", at, step.ModelName)
		}
	}
}

// versions checks that the version policy leaves something to serve.
func (c *checker) versions() {
	entries, err := os.ReadDir(c.Directory)
	if err != nil {
		c.Faults.add(Fault{File: c.Directory, Hint: err.Error()})
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
		c.add(c.draft.fault("version_policy", "at least one version must be available under the version policy of model '"+c.draft.pb.Name+"'",
			"a version directory such as "+strconv.Quote(filepath.Join(c.Directory, "1")), strconv.Itoa(len(available))+" versions"))
	}
	c.modelFiles(serve)
}

// modelFiles checks that every served version has its file. A backend that is
// not ours may do without.
func (c *checker) modelFiles(versions []int64) {
	pb := c.draft.pb
	known := false
	for i := range platformRules {
		known = known || platformRules[i].backend == pb.Backend
	}
	if !known || pb.DefaultModelFilename == "" || len(pb.CcModelFilenames) > 0 {
		return
	}
	for _, v := range versions {
		file := filepath.Join(c.Directory, strconv.FormatInt(v, 10), pb.DefaultModelFilename)
		if _, err := os.Stat(file); err != nil {
			c.add(Fault{File: c.draft.file, Path: "default_model_filename", Expected: "the file " + strconv.Quote(file), Found: "none"})
		}
	}
}

// files checks that the files which the configuration names are there.
func (c *checker) files() {
	pb := c.draft.pb
	must := func(path string, parts ...string) {
		for _, p := range parts {
			if !isLocal(p) {
				return // said by validation
			}
		}
		file := filepath.Join(append([]string{c.Directory}, parts...)...)
		if _, err := os.Stat(file); err == nil {
			return
		}
		f := c.draft.fault(path, "failed to open text file for read "+file+": No such file or directory", "a file", "none")
		if len(parts) > 1 {
			f.Text = "failed to open file for read " + file + ": No such file or directory"
		}
		f.Code = backend.Internal
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
