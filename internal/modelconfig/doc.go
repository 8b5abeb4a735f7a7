// Package modelconfig owns config.pbtxt: it parses, completes, normalizes and
// validates model configurations and yields an immutable [Config], which
// prints itself as JSON (the form of the config endpoint), as text and as YAML.
//
// Open config.go first for the result, then parse.go for [Draft] and the order
// of its steps. A fault of any step is a [Fault] with file, line, field, what
// was expected and what was found; all faults of a step come together, in the
// order in which Triton checks, each with Triton's text first. A file that
// cannot be read in part (unknown fields, wrong values) goes through the other
// steps without that part ([Draft.Inspect], cut.go), and all faults come by line.
//
// To add a field: put it in proto/neso/inference/model_config.proto where the
// JSON form prints it, run proto/generate.sh, add it to config.go and
// finish.go, and to a validate*.go file if it can be wrong.
package modelconfig
