package openai

// stops are the strings at which a text ends. The model is told of them, and may know
// them or not: whoever asked for them never sees one. They are found byte by byte (Knuth,
// Morris and Pratt), since a model's pieces may break one anywhere.
type stops struct {
	words [][]byte
	// fall has, for each word and each of its beginnings, how long the longest shorter
	// beginning is that the beginning ends in.
	fall [][]int
	// shown leaves the string itself in the text (vLLM's include_stop_str_in_output).
	shown bool
}

func newStops(words []string, shown bool) *stops {
	s := &stops{words: make([][]byte, len(words)), fall: make([][]int, len(words)), shown: shown}
	for i, w := range words {
		s.words[i], s.fall[i] = []byte(w), make([]int, len(w))
		for n, at := 0, 1; at < len(w); at++ {
			n = s.step(i, n, w[at])
			s.fall[i][at] = n
		}
	}
	return s
}

// step returns how much of word i the text ends in after one more byte, n before it.
func (s *stops) step(i, n int, c byte) int {
	w := s.words[i]
	for n > 0 && (n == len(w) || w[n] != c) {
		n = s.fall[i][n-1]
	}
	if w[n] == c {
		n++
	}
	return n
}

// cutter ends one text at the first string that is whole; of two that are whole at once
// the longer one counts.
type cutter struct {
	*stops         // nil for none
	matched []int  // of each word, what the text ends in
	held    []byte // it may be the beginning of one
	// done says that one was found, upTo how many bytes of the text are said or can be.
	done bool
	upTo int
}

// take takes a piece of the text and returns what can be said by now.
func (c *cutter) take(piece []byte) []byte {
	if c.stops == nil {
		return piece
	}
	if c.done {
		return nil
	}
	if c.matched == nil {
		c.matched = make([]int, len(c.words))
	}
	text, before := append(c.held, piece...), len(c.held)
	most := 0
	for at, b := range piece {
		most = 0
		for i, w := range c.words {
			c.matched[i] = c.step(i, c.matched[i], b)
			most = max(most, c.matched[i])
			if c.matched[i] == len(w) {
				c.done = true
			}
		}
		if c.done {
			return c.end(text[:before+at+1])
		}
	}
	if len(piece) == 0 {
		most = before
	}
	say := text[: len(text)-most : len(text)-most]
	c.held = append([]byte(nil), text[len(say):]...)
	c.upTo += len(say)
	return say
}

// end is what is said of a text that ends in a string.
func (c *cutter) end(text []byte) []byte {
	longest := 0
	for i, w := range c.words {
		if c.matched[i] == len(w) {
			longest = max(longest, len(w))
		}
	}
	if !c.shown {
		text = text[:len(text)-longest]
	}
	c.held = nil
	c.upTo += len(text)
	return text
}

// rest is what was held back, at the end of the text.
func (c *cutter) rest() []byte {
	held := c.held
	c.held = nil
	c.upTo += len(held)
	return held
}
