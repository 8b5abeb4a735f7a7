// Package repository owns the knowledge of what storage holds: the model
// directories of all repositories, their configurations, their versions, and
// whether any of it has changed. It never loads a model.
//
// Open repository.go first, then snapshot.go; versions.go has the pure rules
// about versions.
package repository
