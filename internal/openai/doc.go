// Package openai knows the bodies of OpenAI's HTTP API: which models are offered
// as what (mapping.go), what a body asks for (request.go), the requests to a model
// that it becomes (calls.go), what a model answers (piece.go), and the replies
// (answer.go). It sends nothing; package httpapi does.
package openai
