// Package library owns the way to C libraries that are opened at run time:
// where one is searched ([Spec.Open]), the calls into it ([Function.Call]) and
// the memory that crosses the border ([Bytes], [CString]).
//
// Open spec.go first, then search.go. With the build tag nopurego, and on
// platforms without a way to open libraries, everything builds and Open says
// what is missing.
package library
