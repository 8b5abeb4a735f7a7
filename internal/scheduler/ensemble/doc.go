// Package ensemble is the scheduler of models that are made of other models:
// it sends the steps' requests through the server (hop 2 again) as soon as
// their tensors are there, and answers with the tensors that are outputs.
//
// Open graph.go first: what is known of an ensemble once it is loaded, made by
// check.go. flow.go decides, for one request and without goroutine, clock or
// lock, which steps can start and which tensors are alive. enqueue.go, run.go
// and step.go carry that out.
package ensemble
