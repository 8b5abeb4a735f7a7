package httpapi

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

// takeHeaderSize replaces the length header of r by what the content type says.
// mime is the content type of binary bodies, without its parameter.
func takeHeaderSize(r *http.Request, mime string) error {
	delete(r.Header, lengthHeader)
	size, ok := strings.CutPrefix(r.Header.Get("Content-Type"), mime+headerSizeSuffix)
	if !ok {
		return nil // plain JSON
	}
	if _, err := strconv.ParseUint(size, 10, 31); err != nil {
		return backend.Errorf(backend.InvalidArg, "Unable to parse inference header size, got: %s", size)
	}
	r.Header[lengthHeader] = []string{size}
	return nil
}

// translator is a ResponseWriter that gives answers the form of a cloud.
type translator struct {
	http.ResponseWriter
	// mime is the content type of binary answers, which then carries the length of
	// the JSON; "" leaves the length header.
	mime string
	// flatten makes every error 400, or 507 when memory is missing. A refusal keeps
	// its status.
	flatten bool
	begun   bool // the status is known
	failed  bool // an error whose text is still to come
}

// WriteHeader adapts the headers; the status of an error waits for its text.
func (t *translator) WriteHeader(status int) {
	t.begun = true
	h := t.Header()
	if n := h[lengthHeader]; t.mime != "" && len(n) == 1 {
		delete(h, lengthHeader)
		h["Content-Type"] = []string{t.mime + headerSizeSuffix + n[0]}
	}
	if t.flatten && status >= http.StatusBadRequest && status != http.StatusForbidden {
		t.failed = true
		return
	}
	t.ResponseWriter.WriteHeader(status)
}

// Write passes the body on; every error has one, in one piece.
func (t *translator) Write(b []byte) (int, error) {
	if !t.begun {
		t.WriteHeader(http.StatusOK)
	}
	if t.failed {
		t.failed = false
		t.ResponseWriter.WriteHeader(flatStatus(string(b)))
	}
	return t.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (t *translator) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// SetReadDeadline bounds the arrival of the body, see deadlines.
func (t *translator) SetReadDeadline(at time.Time) error {
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

func flatStatus(text string) int {
	for _, m := range memoryTexts {
		if strings.Contains(text, m) {
			return http.StatusInsufficientStorage
		}
	}
	return http.StatusBadRequest
}

// replyEmpty answers without a body.
func (s *Server) replyEmpty(w http.ResponseWriter, status int) {
	h := w.Header()
	h["Content-Type"] = textType
	s.write(w, h, status, nil)
}
