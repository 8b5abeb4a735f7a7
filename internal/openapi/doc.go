// Package openapi describes the HTTP API in OpenAPI 3.1: the protocol, which
// protocol.json has, and for each model the very requests that it takes. It also
// has the pages that show that description in a browser.
//
// Begin with Document, in document.go.
package openapi
