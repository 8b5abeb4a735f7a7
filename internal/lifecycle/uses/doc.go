// Package uses owns the graph of which models are made of which: what would be a circle,
// what goes with what, what is loaded before what. Nothing in it waits or locks.
//
// Open graph.go.
package uses
