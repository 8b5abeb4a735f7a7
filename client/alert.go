package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"
)

const (
	handshakeTime = 10 * time.Second
	// alertTime is how long a request that could not be written waits for what the server has said.
	alertTime = time.Second
)

// dialFunc is what makes the connections of an http.Transport.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// dialTLS makes the connections of a pool. In TLS 1.3 a server refuses a client, for its
// lack of a certificate, when the handshake is over for the client and the request on its
// way: whether net/http then returns what the server has said, or that the request could
// not be written, is a matter of chance. Here a write fails with what the server has said.
func dialTLS(over dialFunc, config *tls.Config) dialFunc {
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := over(ctx, network, address)
		if err != nil {
			return nil, err
		}
		own := config
		if own.ServerName == "" {
			own = config.Clone()
			own.ServerName, _, _ = net.SplitHostPort(address)
		}
		c := &alerted{Conn: tls.Client(raw, own), ended: make(chan struct{})}
		ctx, cancel := context.WithTimeoutCause(ctx, handshakeTime, errHandshake)
		defer cancel()
		if err := c.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			if errors.Is(context.Cause(ctx), errHandshake) {
				err = errHandshake
			}
			return nil, err
		}
		return c, nil
	}
}

var errHandshake = fmt.Errorf("TLS handshake timeout after %v", handshakeTime)

// alerted is a connection whose writes fail with the alert that was read, if one was.
type alerted struct {
	*tls.Conn
	once  sync.Once
	ended chan struct{} // closed when a read has failed; alert is set by then
	alert error
}

func (c *alerted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.once.Do(func() {
			if isAlert(err) {
				c.alert = err
			}
			close(c.ended)
		})
	}
	return n, err
}

func (c *alerted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err == nil {
		return n, nil
	}
	t := time.NewTimer(alertTime)
	defer t.Stop()
	select {
	case <-c.ended: // a pool always reads
		if c.alert != nil {
			return n, c.alert
		}
	case <-t.C:
	}
	return n, err
}

// isAlert reports whether an error is what the peer of a TLS connection says.
func isAlert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}

// plain returns the error of a call without what net/http says around an alert: that a
// connection has broken, or that an answer came before its request.
func plain(err error) error {
	bad, ok := errors.AsType[*url.Error](err)
	if ok && isAlert(bad.Err) {
		op, _ := errors.AsType[*net.OpError](bad.Err)
		return &url.Error{Op: bad.Op, URL: bad.URL, Err: op}
	}
	return err
}
