package transport

import (
	"net"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/grpcapi/transport/dispatch"
	"github.com/nesoserve/neso/internal/grpcapi/transport/flow"
	"github.com/nesoserve/neso/internal/grpcapi/transport/header"
	"github.com/nesoserve/neso/internal/rawsocket"
)

// intake is a connection as the goroutine sees it that reads it: with what takes the
// client's frames, which no other goroutine has. Who reads may change (see takeOver),
// but there is one at a time.
type intake struct {
	*conn

	rd        reader
	decoder   *hpack.Decoder
	head      header.Request      // being decoded
	fields    []hpack.HeaderField // of the last call; shared, never changed
	lastBlock []byte              // what head was decoded from, if the same bytes mean the same again
	lastID    uint32              // the newest stream of the client
	history   history
	window    flow.Inbound
	strikes   int
	lastPing  time.Time
	handshake bool    // settings of the client have come
	ready     *stream // a unary call that has come whole and is to be dispatched
	alone     bool    // ready was the only call when it had come
	guess     dispatch.Guess
}

// newIntake makes a connection of a client that is accepted.
func newIntake(s *Server, nc net.Conn) *intake {
	c := &intake{
		conn: &conn{
			s: s, nc: nc, streams: map[uint32]*stream{}, send: flow.Of(flow.Default), streamSend: flow.Of(flow.Default),
			maxFrame: minMaxFrame, last: flow.Max,
		},
		window: flow.InboundOf(int64(s.o.ConnWindow)),
	}
	c.in = c
	if c.sock = rawsocket.New(nc); c.sock != nil {
		c.nc, c.sock.Full, c.sock.Done = c.sock, c.full, c.written
	}
	c.changed.L = &c.mu
	c.peer.Addr, c.peer.LocalAddr = nc.RemoteAddr(), nc.LocalAddr()
	c.decoder = hpack.NewDecoder(header.DefaultTableSize, c.field)
	c.decoder.SetMaxStringLength(maxBlock)
	c.debt = time.Duration(backend.Now()) - mostPoints*pointTime
	return c
}

// standIn goes on in place of a reader that runs a handler.
func (c *intake) standIn() {
	c.guess.Avoid()
	c.serveOn()
}
