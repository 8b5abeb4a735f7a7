package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/kserve"
)

// Error is a fault of a request in the form of the API. Param is the member that
// is wrong, or empty.
type Error struct {
	Status               int
	Message, Param, Code string
}

func (e *Error) Error() string { return e.Message }

// bad is a fault in the member param.
func bad(param, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...), Param: param}
}

// Fault gives an error of the core the form of the API.
func Fault(err *backend.Error) *Error {
	return &Error{Status: kserve.HTTPStatus(err.Code), Message: err.Message}
}

// kinds are the API's words for statuses; every other from 500 on is a server_error.
var kinds = map[int][2]string{
	http.StatusUnauthorized:    {"invalid_request_error", "invalid_api_key"},
	http.StatusForbidden:       {"permission_error", ""},
	http.StatusNotFound:        {"invalid_request_error", "not_found"},
	http.StatusTooManyRequests: {"rate_limit_error", "rate_limit_exceeded"},
}

// form is an error as clients read it.
type form struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// AppendError appends the JSON of an error.
func AppendError(b []byte, e *Error) []byte {
	return appendJSON(b, map[string]form{"error": e.form()})
}

func (e *Error) form() form {
	kind, ok := kinds[e.Status]
	if !ok {
		kind[0] = "invalid_request_error"
		if e.Status >= http.StatusInternalServerError {
			kind[0] = "server_error"
		}
	}
	if e.Code != "" {
		kind[1] = e.Code
	}
	f := form{Message: e.Message, Type: kind[0]}
	if e.Param != "" {
		f.Param = &e.Param
	}
	if kind[1] != "" {
		f.Code = &kind[1]
	}
	return f
}

// Fail appends the event of an error in the middle of a stream. On the route of responses
// it has a name and a number as the others: its members stand in the event, where the
// API's documents have them, and once more in `error`, where its packages look.
func (a *Answer) Fail(b []byte, e *Error) []byte {
	if a.r.Route == Responses {
		f := e.form()
		return a.named(b, "error", map[string]any{"code": f.Code, "message": f.Message, "param": f.Param, "error": f})
	}
	return append(AppendError(append(b, "data: "...), e), "\n\n"...)
}

// appendJSON appends a value that can be nothing but JSON.
func appendJSON(b []byte, v any) []byte {
	out := bytes.NewBuffer(b)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false) // which makes six bytes of one
	if err := e.Encode(v); err != nil {
		panic("openai: " + err.Error()) // our own types, of strings and numbers
	}
	return bytes.TrimSuffix(out.Bytes(), []byte{'\n'})
}
