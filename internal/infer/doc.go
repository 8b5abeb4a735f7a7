// Package infer holds the core request: what a front end makes, a scheduler
// queues, an instance executes and a backend answers. Open request.go first,
// then respond.go.
package infer
