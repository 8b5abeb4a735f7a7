// Package refusals owns the record of what was refused for security: lines of the
// log, as many as a flood of such requests cannot use against it, and counts. Open
// book.go first.
package refusals
