// Package capi is the server as C programs have it: the functions of
// include/triton/core/tritonserver.h, and of include/neso.h, each of which translates
// between C and the public package neso. Objects live in Go; C programs hold handles (package
// capi/handle). No lock is held around a callback of theirs.
//
// The other halves of the C interfaces, for plug-ins, are the packages capi/native
// (backends), capi/agent (repository agents) and capi/cache (response caches).
package capi
