package client

import (
	"fmt"
	"slices"
	"strconv"
)

// EncodeRequest returns the body of a request to infer over HTTP, to be sent by other
// means, and how many of its bytes are JSON: the value of the header
// Inference-Header-Content-Length. Tensors stand behind these.
func EncodeRequest(q *Request) (body []byte, jsonLength int, err error) {
	if err := q.check(); err != nil {
		return nil, 0, err
	}
	head, tail, err := encode(q)
	if err != nil {
		return nil, 0, err
	}
	return slices.Concat(append([][]byte{head}, tail...)...), len(head), nil
}

// DecodeResponse takes the body of an answer to infer over HTTP apart. jsonLength is
// what the header Inference-Header-Content-Length says, 0 if there is none: all of the
// body is JSON then. Outputs are parts of body.
func DecodeResponse(body []byte, jsonLength int) (*Response, error) {
	length := ""
	if jsonLength != 0 {
		length = strconv.Itoa(jsonLength)
	}
	r, err := decode(body, length, nil)
	if err != nil {
		return nil, fmt.Errorf("the answer: %w", err)
	}
	return r, nil
}
