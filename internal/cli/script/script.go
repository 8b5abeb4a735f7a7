// Package script knows scripts for the Python package from models in Python. Open
// script.go.
package script

import (
	"io"
	"os"
	"regexp"
)

var (
	imports = regexp.MustCompile(`(?m)^[ \t]*(from|import)[ \t]+(neso|pytriton)\b`)
	model   = regexp.MustCompile(`(?m)^[ \t]*class[ \t]+TritonPythonModel\b`)
)

// longest is how much of a file is looked at: what it imports stands above.
const longest = 1 << 20

// BindsCallables reports whether a Python file is a script for the Python package,
// and no model.
func BindsCallables(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, longest)) // what was read says enough
	return imports.Match(text) && !model.Match(text)
}
