// Package transport is what lies between the connections of the HTTP front end
// and net/http. It serves hot requests itself and hands everything else up,
// byte for byte.
//
// It exists because an inference request is small: parsing it, answering it and
// watching its connection cost net/http more than the inference. A connection
// here is a net.Conn that net/http reads from. Where a message may begin it
// looks at the bytes first, and when they are of the one shape it knows
// (head.go) it gives the request to the same handler with a writer of its own,
// and looks at what comes next. The handler cannot tell the difference, so that
// there is one implementation of what a request means.
//
// Two parsers on one connection must never disagree where a message ends. So
// the strict one decides: net/http is given exactly the bytes of one message,
// and no more until it has answered it; where the strict parser is not certain,
// it leaves the connection to net/http for good.
//
// Open server.go first, then conn.go, which says whose turn it is, then
// exchange.go, which serves a hot request.
package transport
