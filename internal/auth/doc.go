// Package auth decides what the bearer of a key may do: keys, scopes, model
// patterns and quotas. It starts no goroutine, and both front ends ask it. Open
// guard.go first, then operation.go.
package auth
