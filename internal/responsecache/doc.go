// Package responsecache owns the keys under which answers are kept and the
// stores that keep them: one in this process's memory, one in Redis. Open
// store.go for the contract, key.go for what makes two requests the same, then
// local.go and redis.go. What a model does with a hit and a miss is in
// internal/model (cache.go).
package responsecache
