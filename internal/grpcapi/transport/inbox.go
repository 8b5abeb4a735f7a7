package transport

import (
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nesoserve/neso/internal/ledger"
)

// inbox are messages that wait for the handler. The first needs no list.
type inbox struct {
	first message
	rest  []message
	n     int
}

func (b *inbox) push(m message) {
	if b.n == 0 {
		b.first = m
	} else {
		b.rest = append(b.rest, m)
	}
	b.n++
}

func (b *inbox) pop() message {
	m := b.first
	if b.n--; b.n > 0 {
		b.first = b.rest[0]
		b.rest[0] = message{}
		if b.rest = b.rest[1:]; len(b.rest) == 0 {
			b.rest = nil
		}
	} else {
		b.first = message{}
	}
	return m
}

// RecvMsg implements grpc.ServerStream.
func (st *stream) RecvMsg(v any) error {
	m, err := st.take()
	if err == io.EOF && !st.method.streams { //nolint:errorlint // made below
		return status.Error(codes.Internal, "a unary call without a message")
	}
	if err != nil {
		return err
	}
	defer m.parts.Free()
	data := m.parts
	if m.compressed {
		var held int64
		data, held, err = st.decompress(data)
		if st.method.unary != nil {
			st.c.mu.Lock()
			st.kept += held
			st.c.mu.Unlock()
		} else {
			defer st.c.s.o.Ledger.Give(ledger.In, held)
		}
		if err != nil {
			return err
		}
		defer data.Free()
	}
	if err := st.c.s.o.Codec.Unmarshal(data, v); err != nil {
		return status.Errorf(codes.Internal, "grpc: failed to unmarshal the received message: %v", err)
	}
	return nil
}

// take waits for the next message.
func (st *stream) take() (message, error) {
	c := st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for st.inbox.n == 0 {
		switch {
		case st.ctx.Err() != nil:
			return message{}, Ended(st.ctx.Err()).Err()
		case st.clientDone || st.deaf:
			return message{}, io.EOF
		}
		c.mu.Unlock()
		<-st.arrive // signalled at the end of the call, too
		c.mu.Lock()
	}
	m := st.inbox.pop()
	if st.method.unary == nil || m.held == 0 { // who admits requests counts them from now on
		st.releaseLocked(&m)
	}
	if m.on.IsReserve() {
		st.keptSmall += m.held
	} else {
		st.kept += m.held
	}
	st.giveBackLocked(int64(m.size) + prefixSize)
	return m, nil
}

// giveBackPaddingLocked lets the client send again what was no part of a
// message.
func (st *stream) giveBackPaddingLocked(n int) {
	if st.clientDone || st.deaf {
		return
	}
	st.window.Grant(int64(n))
	st.c.out = appendWindowUpdate(st.c.out, st.id, int64(n))
	st.c.kickLocked()
}

// giveBackLocked lets the client send as much again, on a stream that goes on.
func (st *stream) giveBackLocked(n int64) {
	c := st.c
	grant := st.window.Used(n, int64(c.s.o.StreamWindow)/4)
	if grant == 0 || st.clientDone || st.deaf {
		return
	}
	c.out = appendWindowUpdate(c.out, st.id, grant)
	c.kickLocked()
}

// dropLocked frees a message.
func (st *stream) dropLocked(m message) {
	m.parts.Free()
	st.releaseLocked(&m)
}

func (st *stream) releaseLocked(m *message) {
	if m.held > 0 {
		st.c.s.o.Ledger.GiveWhole(m.on, st.c.asker(), m.held)
		m.held = 0
	} else {
		st.c.smallLocked(-int64(m.size) - messageCost)
	}
}

// signal wakes a handler that waits for messages.
func (st *stream) signal() {
	if st.arrive == nil {
		return
	}
	select {
	case st.arrive <- struct{}{}:
	default: // it has not looked since the last time
	}
}
