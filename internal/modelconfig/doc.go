// Package modelconfig owns what a model's configuration says: the immutable [Config]
// that the rest of the server reads, which prints itself as JSON (the form of the
// config endpoint), as text and as YAML.
//
// How one comes about is in the packages below. read fills the message from text
// or JSON, platform knows which backend runs which files, check has Triton's
// checks in Triton's order, draft takes a configuration through the steps of a
// load up to a Config, and encode prints. A fault of any step is a fault.Fault
// with file, line, field, what was expected and what was found; all faults of a step
// come together, each with Triton's text first. What lies in a model's directory is
// the affair of internal/repository (layout, inspect).
//
// Open config.go first for the result, then draft/draft.go for the order of the steps.
//
// To add a field: put it in proto/neso/inference/model_config.proto where the
// JSON form prints it, run proto/generate.sh, add it to config.go and
// message.go, and to a file of check if it can be wrong.
package modelconfig
