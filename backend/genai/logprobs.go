package genai

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// candidate is a token that could have come.
type candidate struct {
	token   int32
	logprob float64
	rank    int
}

// candidates are the n most likely tokens, the most likely first, and what the sum of all is: the
// logarithm that is subtracted from a logit to have its probability's.
func candidates(logits []float32, n int) (best []candidate, sum float64) {
	if len(logits) == 0 {
		return nil, 0
	}
	highest := math.Inf(-1)
	for _, v := range logits {
		highest = max(highest, float64(v))
	}
	total := 0.0
	for i, v := range logits {
		total += math.Exp(float64(v) - highest)
		if len(best) == n && float64(v) <= best[n-1].logprob {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, float64(v), func(c candidate, v float64) int { return cmp.Compare(v, c.logprob) })
		for at < len(best) && best[at].logprob == float64(v) {
			at++
		}
		best = slices.Insert(best, at, candidate{token: int32(i), logprob: float64(v)})
		if len(best) > n {
			best = best[:n]
		}
	}
	sum = highest + math.Log(total)
	for i := range best {
		best[i].logprob -= sum
		best[i].rank = i + 1
	}
	return best, sum
}

// rankOf is the place of a logit among all.
func rankOf(logits []float32, token int32) int {
	rank := 1
	for i, v := range logits {
		if v > logits[token] || v == logits[token] && int32(i) < token {
			rank++
		}
	}
	return rank
}

// takenFrom is a token as a candidate; sum is that of candidates.
func takenFrom(logits []float32, sum float64, token int32) candidate {
	if token < 0 || int(token) >= len(logits) {
		return candidate{token: token}
	}
	return candidate{token, float64(logits[token]) - sum, rankOf(logits, token)}
}

// appendLogprobs writes a token in the form of vLLM's models: an object of candidates by their
// number, the one that was taken first.
func appendLogprobs(out []byte, taken candidate, best []candidate, text func(int32) string) []byte {
	put := func(c candidate) {
		out = append(out, '"')
		out = strconv.AppendInt(out, int64(c.token), 10)
		out = append(out, `":{"logprob":`...)
		out = strconv.AppendFloat(out, max(c.logprob, -9999), 'g', -1, 64)
		out = append(out, `,"rank":`...)
		out = strconv.AppendInt(out, int64(c.rank), 10)
		out = append(out, `,"decoded_token":`...)
		s := text(c.token)
		if !utf8.ValidString(s) {
			s = "\uFFFD"
		}
		out = append(append(out, quoted(s)...), '}')
	}
	out = append(out, '{')
	put(taken)
	for _, c := range best {
		if c.token != taken.token {
			out = append(out, ',')
			put(c)
		}
	}
	return append(out, '}')
}
