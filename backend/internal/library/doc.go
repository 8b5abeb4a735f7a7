// Package library owns the way to C libraries that are opened at run time:
// where one is searched ([Spec.Open]), the calls into it ([Function.Call]) and
// the memory that crosses the border ([Bytes], [CString]). It also owns what the
// backends over such libraries do alike: one library for all models that use it
// ([Opened]), and what `neso backends` says ([Spec.Describe]).
//
// Open spec.go first, then search.go. With the build tag nopurego, and on
// platforms without a way to open libraries, everything builds and Open says
// what is missing.
package library
