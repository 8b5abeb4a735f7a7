// Package board lets the server and a worker agree which batches the worker has
// begun, so that what it has not begun can be taken back: two words for each
// instance in memory that both map, a fence of all processors (fence_linux.go), and
// a bell for a worker that holds answers (bell_linux.go). Open board.go first: it
// says why this is safe.
package board
