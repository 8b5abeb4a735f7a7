// Package cloudform gives requests and answers the form in which clouds, SageMaker and
// Vertex AI, hand them on.
package cloudform

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nesoserve/neso/backend"
)

// Clouds hand requests on without headers of their users', so that the length
// of the JSON in a binary body stands in the content type instead:
// "application/vnd.sagemaker-triton.binary+json;json-header-size=152".
const headerSizeSuffix = ";json-header-size="

// LengthHeader holds the length of the JSON before the tensors' bytes.
const LengthHeader = "Inference-Header-Content-Length"

// TakeHeaderSize replaces the length header of r by what the content type says.
// mime is the content type of binary bodies, without its parameter.
func TakeHeaderSize(r *http.Request, mime string) error {
	delete(r.Header, LengthHeader)
	size, ok := strings.CutPrefix(r.Header.Get("Content-Type"), mime+headerSizeSuffix)
	if !ok {
		return nil // plain JSON
	}
	if _, err := strconv.ParseUint(size, 10, 31); err != nil {
		return backend.Errorf(backend.InvalidArg, "Unable to parse inference header size, got: %s", size)
	}
	r.Header[LengthHeader] = []string{size}
	return nil
}

// Translator is a ResponseWriter that gives answers the form of a cloud.
type Translator struct {
	http.ResponseWriter
	// MIME is the content type of binary answers, which then carries the length of
	// the JSON; "" leaves the length header.
	MIME string
	// Flatten makes every error 400, or 507 when memory is missing. A refusal keeps
	// its status.
	Flatten bool
	begun   bool // the status is known
	failed  bool // an error whose text is still to come
}

// WriteHeader adapts the headers; the status of an error waits for its text.
func (t *Translator) WriteHeader(status int) {
	t.begun = true
	h := t.Header()
	if n := h[LengthHeader]; t.MIME != "" && len(n) == 1 {
		delete(h, LengthHeader)
		h["Content-Type"] = []string{t.MIME + headerSizeSuffix + n[0]}
	}
	if t.Flatten && status >= http.StatusBadRequest && status != http.StatusForbidden {
		t.failed = true
		return
	}
	t.ResponseWriter.WriteHeader(status)
}

// Write passes the body on; every error has one, in one piece.
func (t *Translator) Write(b []byte) (int, error) {
	if !t.begun {
		t.WriteHeader(http.StatusOK)
	}
	if t.failed {
		t.failed = false
		t.ResponseWriter.WriteHeader(FlatStatus(string(b)))
	}
	return t.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (t *Translator) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// SetReadDeadline bounds the arrival of the body, see deadlines.
func (t *Translator) SetReadDeadline(at time.Time) error {
	return http.NewResponseController(t.ResponseWriter).SetReadDeadline(at)
}

// memoryTexts are what frameworks say when memory is short. The cloud puts
// another model out of memory when it sees status 507.
var memoryTexts = []string{
	"CUDA out of memory", "CUDA_OUT_OF_MEMORY", "Out of memory", "Out Of Memory", "out of memory", "MemoryError", "OutOfMemory", "OOM",
	"Dst tensor is not initialized", "Src tensor is not initialized", "CNMEM_STATUS_OUT_OF_MEMORY", "CUDNN_STATUS_NOT_INITIALIZED",
	"CUBLAS_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_NOT_INITIALIZED", "Failed to allocate memory", "failed to allocate memory",
	"No space left on device",
}

// FlatStatus is the status of an error with this text: 507 when memory is missing,
// else 400.
func FlatStatus(text string) int {
	for _, m := range memoryTexts {
		if strings.Contains(text, m) {
			return http.StatusInsufficientStorage
		}
	}
	return http.StatusBadRequest
}
