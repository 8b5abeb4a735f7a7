package infer

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

// Responding returns when the response that is made now was begun: when the one
// before was delivered, or the request began to execute, or arrived.
func (t *Times) Responding() int64 {
	switch {
	case t.Response != 0:
		return t.Response
	case t.ComputeStart != 0:
		return t.ComputeStart
	}
	return t.Start
}
