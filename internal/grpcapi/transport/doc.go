// Package transport is the server side of gRPC over HTTP/2, for the services
// and handlers of google.golang.org/grpc: it takes their descriptions and gives
// their handlers a stream.
//
// It exists because a KServe call is small: the library's server hands each
// message from the reader of its connection to a worker, and each answer from
// there to a writer, and copies large messages through 16 KiB frames one by
// one. Here a whole request goes to its handler at once, the handler writes its
// own answer (with those of others that are ready), and large messages are read
// from the socket into the memory they stay in.
//
// Open server.go first, then conn.go: a connection has one goroutine that reads
// (intake.go has what is that goroutine's alone) and one lock for everything that
// others may touch.
package transport
