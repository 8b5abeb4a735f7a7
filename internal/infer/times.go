package infer

import "github.com/nesoserve/neso/backend"

// Phases splits an executed request's time, in nanoseconds, into queue,
// compute input, compute infer and compute output. Where the backend did not
// say when a phase ended, the time counts as inference.
func (t *Times) Phases() (queue, input, infer, output int64) {
	if s := t.Steps; s != nil {
		return s[0], s[1], s[2], s[3]
	}
	from := t.Queue
	if from == 0 {
		from = t.Start
	}
	end := t.ComputeEnd
	if end == 0 {
		end = t.End
	}
	inputEnd, outputStart := t.InputEnd, t.OutputStart
	if inputEnd == 0 {
		inputEnd = t.ComputeStart
	}
	if outputStart == 0 {
		outputStart = end
	}
	return max(0, t.ComputeStart-from), max(0, inputEnd-t.ComputeStart), max(0, outputStart-inputEnd), max(0, end-outputStart)
}

// Elapsed returns the nanoseconds since the request executes, or arrived.
func (t *Times) Elapsed() int64 {
	if t.ComputeStart != 0 {
		return backend.Now() - t.ComputeStart
	}
	return backend.Now() - t.Start
}
