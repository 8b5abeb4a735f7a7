// Package client talks to a running inference server over the KServe v2
// protocol's HTTP form: health, metadata, statistics, the model repository,
// settings, and inference with tensors as bytes. It works against Neso and
// against any other server of that protocol.
//
//	c := client.New("localhost:8000")
//	resp, err := c.Infer(ctx, &client.Request{Model: "add_sub", Inputs: []client.Input{
//		{Name: "INPUT0", Datatype: tensor.FP32, Shape: tensor.Shape{4}, Data: bytes0},
//		{Name: "INPUT1", Datatype: tensor.FP32, Shape: tensor.Shape{4}, JSON: []byte("[1, 2, 3, 4]")},
//	}})
//
// Open client.go first, then infer.go.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// maxAnswer bounds what is read of an answer that holds no tensors, in bytes.
const maxAnswer = 64 << 20

// Client is a connection to one server. Its methods are safe for concurrent
// use and return an *Error when the server answered with one.
type Client struct {
	// URL is the server's address with scheme, without a path at its end other
	// than that of a proxy in front: "http://localhost:8000".
	URL string
	// Header is added to every request: keys of restricted APIs, credentials.
	Header http.Header
	// HTTP makes the requests; default http.DefaultClient.
	HTTP *http.Client
}

// New returns a client of the server at address: "host:port", a URL, or
// "unix:/path" for a Unix socket.
func New(address string) *Client {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		dialer := &net.Dialer{}
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		}}
		return &Client{URL: "http://localhost", HTTP: &http.Client{Transport: transport}}
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	return &Client{URL: strings.TrimRight(address, "/")}
}

// Error is an answer other than success.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Message is the server's text.
	Message string
}

func (e *Error) Error() string {
	if e.Status == http.StatusOK {
		return strings.TrimSpace(e.Message) // an error within a stream
	}
	return fmt.Sprintf("%s (HTTP status %d)", strings.TrimSpace(e.Message), e.Status)
}

// Ready reports whether the server is ready. An error says that this could not
// be found out: no connection, no permission.
func (c *Client) Ready(ctx context.Context) (bool, error) { return c.probe(ctx, "/v2/health/ready") }

// Live reports whether the server answers requests at all.
func (c *Client) Live(ctx context.Context) (bool, error) { return c.probe(ctx, "/v2/health/live") }

// ModelReady reports whether a model is ready; version "" means any.
func (c *Client) ModelReady(ctx context.Context, model, version string) (bool, error) {
	return c.probe(ctx, modelPath(model, version)+"/ready")
}

func (c *Client) probe(ctx context.Context, path string) (bool, error) {
	_, err := c.call(ctx, http.MethodGet, path, nil)
	var answer *Error
	if errors.As(err, &answer) && (answer.Status == http.StatusBadRequest || answer.Status == http.StatusServiceUnavailable) {
		return false, nil
	}
	return err == nil, err
}

// Readiness says what is ready and, where something is not, why.
type Readiness struct {
	Ready bool `json:"ready"`
	// State of the server: INITIALIZING, READY, EXITING or FAILED.
	State string `json:"state"`
	// Reason is what keeps the server from being ready.
	Reason string           `json:"reason"`
	Models []ModelReadiness `json:"models"`
}

// ModelReadiness is one version of a model, "" for a model without versions.
type ModelReadiness struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// State is that of the index; Ready says whether the version serves at present.
	State  string `json:"state"`
	Ready  bool   `json:"ready"`
	Reason string `json:"reason"`
}

// Readiness is Ready with the reasons, for the server and each model. With keys
// it needs the scope read or manage. A server that does not know the question,
// such as Triton, is an error.
func (c *Client) Readiness(ctx context.Context) (*Readiness, error) {
	text, err := c.call(ctx, http.MethodGet, "/v2/health/ready?verbose", nil)
	var answer *Error
	if errors.As(err, &answer) && (answer.Status == http.StatusBadRequest || answer.Status == http.StatusServiceUnavailable) {
		text = json.RawMessage(answer.Message) // the same answer, with the status of one that is not ready
	} else if err != nil {
		return nil, err
	}
	r := &Readiness{}
	if json.Unmarshal(text, r) != nil {
		if err == nil {
			err = errors.New("the server does not say what is ready and why not")
		}
		return nil, err
	}
	return r, nil
}

// ServerMetadata returns the server's name, version and extensions, as JSON.
func (c *Client) ServerMetadata(ctx context.Context) (json.RawMessage, error) {
	return c.call(ctx, http.MethodGet, "/v2", nil)
}

// ModelMetadata says what a model takes and gives.
func (c *Client) ModelMetadata(ctx context.Context, model, version string) (*Metadata, error) {
	text, err := c.call(ctx, http.MethodGet, modelPath(model, version), nil)
	if err != nil {
		return nil, err
	}
	m := &Metadata{}
	return m, json.Unmarshal(text, m)
}

// ModelConfig returns a model's configuration as the server completed it, as JSON.
func (c *Client) ModelConfig(ctx context.Context, model, version string) (json.RawMessage, error) {
	return c.call(ctx, http.MethodGet, modelPath(model, version)+"/config", nil)
}

// Statistics returns the statistics of a model, or of all for model "", as JSON.
func (c *Client) Statistics(ctx context.Context, model, version string) (json.RawMessage, error) {
	if model == "" {
		return c.call(ctx, http.MethodGet, "/v2/models/stats", nil)
	}
	return c.call(ctx, http.MethodGet, modelPath(model, version)+"/stats", nil)
}

// Metadata describes a model.
type Metadata struct {
	Name     string           `json:"name"`
	Versions []string         `json:"versions"`
	Platform string           `json:"platform"`
	Inputs   []TensorMetadata `json:"inputs"`
	Outputs  []TensorMetadata `json:"outputs"`
}

// TensorMetadata describes an input or output; -1 in Shape stands for any size,
// and the batch dimension is part of it.
type TensorMetadata struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
}

func modelPath(model, version string) string {
	path := "/v2/models/" + url.PathEscape(model)
	if version != "" {
		path += "/versions/" + url.PathEscape(version)
	}
	return path
}

// call sends body, if any, as JSON and returns the answer.
func (c *Client) call(ctx context.Context, method, path string, body any) (json.RawMessage, error) {
	var content []byte
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	resp, err := c.send(ctx, method, path, nil, content)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return readAll(resp.Body, maxAnswer)
}

// send makes a request; an answer that is no success becomes an *Error.
func (c *Client) send(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for _, h := range []http.Header{c.Header, header} {
		maps.Copy(req.Header, h)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	text, err := readAll(resp.Body, maxAnswer)
	if err != nil {
		return nil, err
	}
	var answer struct{ Error string }
	if json.Unmarshal(text, &answer) != nil || answer.Error == "" {
		answer.Error = strings.TrimSpace(string(text))
	}
	if answer.Error == "" {
		answer.Error = http.StatusText(resp.StatusCode)
	}
	return nil, &Error{Status: resp.StatusCode, Message: answer.Error}
}

func readAll(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("the answer is longer than %d bytes", limit)
	}
	return b, err
}
