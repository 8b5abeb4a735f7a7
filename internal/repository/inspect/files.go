package inspect

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig/check"
	"github.com/nesoserve/neso/internal/modelconfig/draft"
	"github.com/nesoserve/neso/internal/modelconfig/fault"
	"github.com/nesoserve/neso/internal/modelconfig/platform"
	"github.com/nesoserve/neso/internal/repository/layout"
	"github.com/nesoserve/neso/internal/setting"
)

// advise hints at what loads and is likely not meant.
func (c *inspector) advise() {
	config := c.config
	if config.Dynamic != nil && config.MaxBatchSize == 0 {
		c.hintOf("max_batch_size", "dynamic_batching without max_batch_size above 0 never batches, unless the backend completes "+
			"max_batch_size")
	}
	for i := range config.Warmup {
		if config.Warmup[i].BatchSize == 0 {
			c.hintOf("model_warmup["+strconv.Itoa(i)+"].batch_size", "model_warmup[%d]: a sample without batch_size is skipped", i)
		}
	}
	directory := c.Directory
	if c.Custom {
		directory = ""
	}
	for _, idle := range Idle(c.draft, directory, c.Options.Words) {
		c.hintOf(idle.Field, "%s", idle)
	}
	if config.Ensemble == nil {
		return
	}
	for i, step := range config.Ensemble.Steps {
		at := "ensemble_scheduling.step[" + strconv.Itoa(i) + "]"
		if step.Version == 0 {
			c.hintOf(at+".model_version", "%s: model_version is not set and so means version 0; -1 means the latest", at)
		}
		if !c.Custom && len(c.Options.Repositories) > 0 && step.Model != "" && !c.available(step.Model) {
			f := c.draft.Fault(at+".model_name",
				"ensemble "+config.Name+" contains models that are not available or ambiguous: "+step.Model,
				"a model of the repositories", fault.Quote(step.Model))
			f.Hint = "of several repositories give each as a PATH"
			c.add(f)
		}
	}
}

// stub is the file that Triton runs Python models with, where a model brings it.
const stub = "triton_python_backend_stub"

// Idle returns what a draft asks for, and what its directory has, without effect.
// The directory is "" where it says nothing about the model; words are
// what the reasons call settings of the server.
func Idle(d *draft.Draft, directory string, words setting.Words) []draft.Idle {
	all := d.Idle()
	if directory == "" {
		return all
	}
	if _, err := os.Stat(filepath.Join(directory, stub)); err == nil {
		all = append(all, draft.Idle{
			Field:   stub,
			Because: "Python models run in an interpreter, by EXECUTION_ENV_PATH or " + words.Name("python") + ", and need no stub",
		})
	}
	return all
}

// available reports whether one of the repositories has the model.
func (c *inspector) available(model string) bool {
	if !check.Local(model) {
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
		c.add(fault.Fault{File: c.Shown, Hint: err.Error()})
		return
	}
	var available []int64
	for _, e := range entries {
		if !layout.IsDirectory(os.DirFS(c.Directory), e) {
			continue
		}
		if v, ok := layout.ParseVersion(e.Name()); ok {
			available = append(available, v)
		} else if first := e.Name()[0]; '0' <= first && first <= '9' {
			c.hint("directory %q is no version: a version is a number without leading zeros", e.Name())
		}
	}
	policy := c.draft.Versions()
	serve, missing := policy.Select(available)
	for _, v := range missing {
		if !c.draft.UnreadIn("version_policy") {
			c.hint("version %d of the version policy has no directory and is skipped", v)
		}
	}
	// One that serves nothing whatever there is is a fault of its own, which no directory mends.
	if len(serve) == 0 && policy.Any() && !c.draft.UnreadIn("version_policy") {
		wanted := "1"
		if len(missing) > 0 {
			wanted = strconv.FormatInt(missing[0], 10)
		}
		c.add(c.draft.Fault("version_policy", NoVersion(c.draft.Name(), missing),
			"a version directory such as "+strconv.Quote(filepath.Join(c.Shown, wanted)), strconv.Itoa(len(available))+" versions"))
	}
	c.report.Versions = serve
}

// files checks that the files which the configuration names are there: that of
// the model in every served version, and the others.
func (c *inspector) files() {
	if name := c.draft.ModelFile(); name != "" && !c.draft.Unread(platform.Fields...) {
		for _, v := range c.report.Versions {
			file := filepath.Join(strconv.FormatInt(v, 10), name)
			if _, err := os.Stat(filepath.Join(c.Directory, file)); err != nil {
				c.add(fault.Fault{File: c.draft.File(), Path: "default_model_filename", Expected: "the file " +
					strconv.Quote(filepath.Join(c.Shown, file)), Found: "none", Lacks: name})
			}
		}
	}
	for _, named := range c.draft.Files() {
		within := filepath.Join(named.Directory, named.Name)
		if _, err := os.Stat(filepath.Join(c.Directory, within)); err == nil {
			continue
		}
		kind := "text file"
		if named.Directory != "" {
			kind = "file"
		}
		f := c.draft.Fault(named.Field, "failed to open "+kind+" for read "+filepath.Join(c.Shown,
			within)+": No such file or directory", "a file", "none")
		f.Code, f.Lacks = backend.Internal, named.Name
		c.add(f)
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
