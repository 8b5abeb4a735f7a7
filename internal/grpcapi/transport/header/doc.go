// Package header reads and writes what the headers of gRPC's calls say: metadata,
// timeouts, statuses, and of HPACK (RFC 7541) what the transport does itself. It
// knows nothing of connections.
//
// Open request.go first, then table.go and metadata.go.
package header
