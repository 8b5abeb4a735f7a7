// Package ledger keeps the account of the shared memory between the server and one
// worker: which blocks the worker still reads after its answer (held), which it has
// let go of before the server knew that it holds them (early), and which of its own
// blocks it may use again. It is pure but for the references that it keeps.
package ledger
