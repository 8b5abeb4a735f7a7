// Package scratch makes directories that last as long as their process: the
// ones that a killed process has left behind are removed by the next one that
// needs a directory of the same kind.
//
// Open scratch.go first.
package scratch
