package drive

import "context"

// Call makes a request of a server within the process and calls yield for each
// response, with its bytes if keep asks for them. An error is a *Failure.
type Call func(ctx context.Context, r *Request, keep bool, yield func(body []byte)) error

// localConn has requests answered within the process.
type localConn struct {
	call   Call
	ctx    context.Context
	cancel func()
	answer *Answer
	yield  func(body []byte)
	long   bool // more came than can be kept
}

// Local returns a connection to a server within the process.
func Local(call Call) Conn {
	c := &localConn{call: call}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.yield = c.response
	return c
}

func (c *localConn) Do(r *Request, a *Answer) error {
	a.reset()
	a.Sent = Now()
	c.answer = a
	c.long = false
	err := c.call(c.ctx, r, a.Keep, c.yield)
	a.Last = Now()
	if c.long && err == nil {
		return tooLong()
	}
	if c.ctx.Err() != nil && err != nil {
		return &Failure{Kind: kindStopped, Broken: true}
	}
	return err
}

func (c *localConn) response(body []byte) {
	a, now := c.answer, Now()
	if a.First == 0 {
		a.First = now
	}
	if a.Keep {
		c.long = !a.keep(body) || c.long
	}
	a.response(now)
}

// Close cancels a request under way.
func (c *localConn) Close() error {
	c.cancel()
	return nil
}
