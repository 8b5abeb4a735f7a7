package infer

import "github.com/nesoserve/neso/backend"

// Timeline follows one sampled request. It reads the times of the request when
// that ends and needs no clock of its own, but for the moment of an answer. Calls
// may come from several goroutines.
type Timeline interface {
	// Begin is called at hop 2. It sets r.Trace to what the model is given of the
	// trace, and borrows the inputs.
	Begin(r *Request)
	// Queue is called at hop 3, before the request is looked up in the response cache or
	// the scheduler is handed it. It borrows the inputs.
	Queue(r *Request)
	// Answer is called with each response before it is delivered, and with nil for
	// a mere final mark. It borrows the outputs.
	Answer(r *Request, resp *backend.Response)
	// End is called once: when r has its final response and all its times, or has
	// been refused with err.
	End(r *Request, err error)
	// Child returns the timeline of a request that serves this one, or nil. It is
	// owed an End.
	Child() Timeline
}
