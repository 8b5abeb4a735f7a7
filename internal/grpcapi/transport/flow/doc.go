// Package flow is the arithmetic of HTTP/2's flow control (RFC 9113, sections 5.2
// and 6.9): how much may be sent, what has been granted, and what is owed. It is
// the same for a connection and for each of its streams. It locks nothing.
//
// Open window.go first.
package flow
