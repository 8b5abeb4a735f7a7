// Package dashboard serves a page that shows the running server: its files, which
// are built from web/ and embedded, and what they ask for. The page speaks only to
// where it came from: below /dashboard/api/ is the HTTP API, with the same keys.
//
// Begin with server.go.
package dashboard
