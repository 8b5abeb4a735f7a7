// Package lifecycle owns which versions of which models are loaded: it brings
// what is loaded in line with what is desired, by loads, reloads and unloads,
// and publishes the result as an immutable table that requests read without a
// lock (package routing).
//
// Open manager.go first, then catalog.go, what is known of each model, and load.go,
// which has the one way in which a version becomes ready; maker.go has what makes it,
// state.go the states and their allowed moves, table.go what is published.
package lifecycle
