// Package fault owns what is said of a faulty configuration: a [Fault] with its
// text, its position, what was expected and what was found, a [List] of them as an
// error, and the [Source] that knows where each field stands. Reading, checking and
// whatever looks at a model's directory share these and nothing else.
//
// Open fault.go first.
package fault
