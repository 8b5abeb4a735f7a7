// Package httpapi is the HTTP/REST front end: the KServe v2 protocol with
// Triton's extensions, on net/http. It owns routing, bodies, compression,
// timeouts and replies; what the words mean is in package kserve.
//
// Open server.go first, then infer.go, which is hop 1 of a request.
package httpapi
