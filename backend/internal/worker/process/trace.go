package process

import "time"

// traceWait is how long a worker may take to say where it is. One that cannot
// run, or that has taken the signal for itself, is killed then.
const traceWait = 5 * time.Second

// Trace has a Python worker write down where its main thread is, which ends the
// process, and returns that, or "".
func (p *Process) Trace() string {
	p.lines.Traced()
	p.quit()
	p.await(traceWait)
	return p.lines.Trace()
}
