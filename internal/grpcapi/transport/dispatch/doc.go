// Package dispatch guesses where a unary call is served best: on the goroutine
// that reads its connection, or on another one.
//
// A call that comes alone is served by the reader: no other goroutine has to be
// woken, which costs as much as a small call. While it runs nobody reads, which is
// no loss to a client that waits for the answer, and a loss to several callers that
// share the connection. Such a connection has more than one call open at a time, or
// the next call has come when a longer one is over. Guess counts these signs.
//
// Open guess.go first.
package dispatch
