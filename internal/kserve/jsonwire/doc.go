// Package jsonwire is the HTTP form of the KServe v2 protocol: JSON, of infer
// requests and their responses with a binary tail, of generate requests, and of
// everything that controls and describes the server. What the words mean is
// known to package kserve; the scanner of plain JSON is jsonscan.
//
// Open decode.go first, then input.go and data.go.
package jsonwire
