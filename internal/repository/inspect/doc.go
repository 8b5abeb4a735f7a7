// Package inspect owns what can be said of models without loading them: the
// faults, warnings and hints of a configuration and of the files around it. `neso
// config check` prints its reports, and a load that fails adds them to its error.
//
// Open check.go first, which reads a repository; inspect.go has one model, and
// files.go what lies in its directory.
package inspect
