// Package routing owns which version of a model a request goes to: the table of what
// serves, which requests read without a lock, and the rules by which a model's requests
// are shared among its versions.
//
// Open router.go first, the read side; table.go has what it reads, and rules.go how the
// rules of one model change. What a rule means is package rollout's; when a version
// serves is package lifecycle's, which alone publishes tables.
package routing
