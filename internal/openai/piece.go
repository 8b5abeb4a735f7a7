package openai

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/generation"
	"github.com/nesoserve/neso/tensor"
)

// Names of the outputs, or else of the response's parameters, that tell of a text.
const (
	finishName  = "finish_reason"
	promptName  = generation.PromptTokens
	tokensName  = generation.OutputTokens
	logprobName = "logprobs"
)

// Piece is what one response of a model says.
type Piece struct {
	Text   []byte
	Finish string // why the text ends; empty as long as it does not
	// Prompt and Tokens are numbers of tokens; -1 means that the model does not say.
	// Tokens is of this piece alone.
	Prompt, Tokens int64
	// Bytes is what the piece holds.
	Bytes int

	logprobs []token
	vectors  []byte // little-endian FP32
	rows     int
}

// token is one of the text, with the candidates for its place.
type token struct {
	candidate

	Top []candidate `json:"top_logprobs"`
}

// candidate is a token with its log probability.
type candidate struct {
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"`

	rank int64
}

// Read takes what it needs out of a response, which is borrowed.
func (m *Mapping) Read(resp *backend.Response) (Piece, *Error) {
	p := Piece{Prompt: -1, Tokens: -1}
	for i := range resp.Parameters {
		switch q := &resp.Parameters[i]; {
		case q.Name == finishName && q.Kind == backend.StringParameter:
			p.finish(q.Text())
		case q.Name == promptName && q.Kind == backend.IntParameter:
			p.Prompt = min(max(0, q.Int64()), math.MaxInt32)
		case q.Name == tokensName && q.Kind == backend.IntParameter:
			p.Tokens = min(max(0, q.Int64()), math.MaxInt32)
		}
	}
	for i := range resp.Outputs {
		t := &resp.Outputs[i]
		switch t.Name {
		case m.Output:
			if t.Datatype == tensor.FP32 {
				p.readVectors(t)
			} else {
				p.Text = bytes.Clone(first(t))
			}
		case finishName:
			p.finish(string(first(t)))
		case promptName:
			p.Prompt = generation.Tokens(t)
		case tokensName:
			p.Tokens = generation.Tokens(t)
		case logprobName:
			var err *Error
			if p.logprobs, err = readLogprobs(first(t)); err != nil {
				return p, err
			}
			p.Bytes += 4 * len(t.Data)
		}
	}
	p.Bytes += len(p.Text) + len(p.vectors)
	return p, nil
}

func (p *Piece) finish(why string) {
	if why != "" && why != "None" && why != "none" && why != "null" {
		p.Finish = cut(strings.ToValidUTF8(why, "\uFFFD"), maxName)
	}
}

// first returns the first string: of several, which only searches with beams give,
// it is the best one.
func first(t *tensor.Tensor) []byte {
	if t.Datatype == tensor.Bytes {
		for _, e := range tensor.Elements(t.Data) {
			return e
		}
	}
	return nil
}

// readVectors takes the rows: the batch dimension, or one.
func (p *Piece) readVectors(t *tensor.Tensor) {
	p.vectors, p.rows = bytes.Clone(t.Data), 1
	if len(t.Shape) > 1 && t.Shape[0] > 0 {
		p.rows = int(t.Shape[0])
	}
}

// readLogprobs reads the form of vLLM's models: an array with an object for each
// token, whose members are candidates by their number, the one that was taken
// first.
func readLogprobs(text []byte) ([]token, *Error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	wrong := &Error{Status: 500, Message: "the model's output '" + logprobName + "' is not an array of objects of candidates"}
	var each []json.RawMessage
	if json.Unmarshal(text, &each) != nil {
		return nil, wrong
	}
	all := make([]token, 0, len(each))
	for _, one := range each {
		d := json.NewDecoder(bytes.NewReader(one))
		if open, err := d.Token(); err != nil || open != json.Delim('{') {
			return nil, wrong
		}
		var candidates []candidate
		for d.More() {
			var c struct {
				Logprob float64 `json:"logprob"`
				Rank    int64   `json:"rank"`
				Text    string  `json:"decoded_token"`
			}
			if _, err := d.Token(); err != nil || d.Decode(&c) != nil {
				return nil, wrong
			}
			candidates = append(candidates, newCandidate(c.Text, c.Logprob, c.Rank))
		}
		if len(candidates) == 0 {
			return nil, wrong
		}
		taken := candidates[0]
		slices.SortStableFunc(candidates, func(x, y candidate) int { return int(max(-1, min(1, x.rank-y.rank))) })
		all = append(all, token{taken, candidates})
	}
	return all, nil
}

func newCandidate(text string, logprob float64, rank int64) candidate {
	t := candidate{Token: text, Logprob: max(logprob, -9999), rank: rank, Bytes: make([]int, len(text))}
	for i := range len(text) {
		t.Bytes[i] = int(text[i])
	}
	return t
}
