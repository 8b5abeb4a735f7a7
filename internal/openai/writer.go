package openai

import (
	"encoding/json"
	"net/http"
)

// Writer is a ResponseWriter that gives errors in the form of the other routes, each
// of which is written in one piece, the form of the API.
type Writer struct {
	http.ResponseWriter
	status int // of an error whose text is still to come
}

// WriteHeader keeps the status of an error until its text comes.
func (w *Writer) WriteHeader(status int) {
	if status >= http.StatusBadRequest {
		w.status = status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write passes the body on.
func (w *Writer) Write(b []byte) (int, error) {
	if w.status == 0 {
		return w.ResponseWriter.Write(b)
	}
	fault := &Error{Status: w.status, Message: string(b)}
	w.status = 0
	var other struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(b, &other) == nil && other.Error != "" {
		fault.Message = other.Error
	}
	w.Fail(fault)
	return len(b), nil
}

// Fail answers with an error of the API's own.
func (w *Writer) Fail(fault *Error) {
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	delete(h, "Content-Length")
	w.ResponseWriter.WriteHeader(fault.Status)
	_, _ = w.ResponseWriter.Write(AppendError(nil, fault)) // a client that is gone needs no answer
}

// Unwrap lets http.ResponseController reach the connection.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
